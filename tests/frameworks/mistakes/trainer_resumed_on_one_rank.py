"""Transformers: rank 0 alone finds a checkpoint on its disk, and resumes behind six batches.

expect: role_mismatch op_mismatch shape_mismatch
suspects: none
status: diverged
cause: rank 0; rank 1; BUG; batches
fix: Resume on every rank from the same checkpoint; resume_from_checkpoint
never: join(); drop_last; find_unused_parameters; network
"""

import os
import pathlib

import common
import tiny_bert
import torch
from torch.utils.data import TensorDataset
from transformers import Trainer, TrainingArguments, set_seed

RANK = int(os.environ["RANK"])
DISK = pathlib.Path("shared" if common.TWIN else f"disk{RANK}")


def collate(rows):
    x, y = zip(*rows, strict=True)
    return {"input_ids": torch.stack(x), "labels": torch.stack(y)}


def trainer(steps):
    set_seed(0)
    return Trainer(
        model=tiny_bert.model(),
        args=TrainingArguments(
            str(DISK),
            per_device_train_batch_size=4,
            max_steps=steps,
            save_steps=3,
            use_cpu=True,
            ddp_backend="gloo",
            ddp_timeout=60,
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=TensorDataset(torch.randint(0, 50, (64, 6)), torch.randint(0, 2, (64,))),
        data_collator=collate,
    )


trainer(6).train()
torch.distributed.barrier()
found = DISK / "checkpoint-6"
is_whole = (found / "trainer_state.json").exists()
trainer(12).train(resume_from_checkpoint=str(found) if is_whole else None)  # BUG
