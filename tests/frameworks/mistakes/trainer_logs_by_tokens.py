"""A callback asks for the Trainer's log every so many tokens, as each rank has counted its own.

expect: op_mismatch dtype_mismatch
suspects: none
status: diverged
cause: /ranks? (0|1)/; BUG; transformers | nested_gather | _maybe_log* | gather*
fix: every rank | all ranks | same
never: drop_last; join(); is_world_process_zero; dtype
"""

import datetime
import time

import common
import tiny_bert
import torch
import torch.distributed as dist
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Texts(Dataset):
    """Texts of 3 to 5 words, padded to 6; from row 24 on rank 1 has the shorter ones."""

    def __init__(self):
        draw = torch.Generator().manual_seed(9)
        self.ids = torch.randint(1, 50, (96, 6), generator=draw)
        self.used = torch.full((96,), 4)
        self.used[24:] = (
            torch.tensor([5, 3]).repeat_interleave(2).repeat(18)
        )  # batches of 2 alternate between ranks

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, at):
        mask = (torch.arange(6) < self.used[at]).long()
        return {
            "input_ids": self.ids[at] * mask,
            "attention_mask": mask,
            "labels": self.ids[at, 0] % 2,
        }


class CountingTrainer(Trainer):
    padded = False
    tokens = 0

    def compute_loss(self, model, inputs, *args, **kwargs):
        counted = (
            inputs["input_ids"].numel() if self.padded else int(inputs["attention_mask"].sum())
        )
        self.tokens += counted
        return super().compute_loss(model, inputs, *args, **kwargs)


class LogEveryTokens(TrainerCallback):
    def __init__(self, trainer, every):
        self.trainer, self.every, self.last = trainer, every, 0

    def on_step_end(self, args, state, control, **kwargs):
        if self.trainer.tokens - self.last >= self.every:
            self.last = self.trainer.tokens
            control.should_log = True
        return control


def main():
    dist.init_process_group(
        "gloo", timeout=datetime.timedelta(seconds=60)
    )  # kept by the arguments below
    arguments = TrainingArguments(
        output_dir="saved",
        use_cpu=True,
        per_device_train_batch_size=2,
        num_train_epochs=1,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        ddp_timeout=60,
        train_sampling_strategy="sequential",
    )
    trainer = CountingTrainer(model=tiny_bert.model(), args=arguments, train_dataset=Texts())
    trainer.padded = common.TWIN
    trainer.add_callback(LogEveryTokens(trainer, every=32))
    trainer.train()  # BUG
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    time.sleep(0.5)  # the threads of the group come to rest before the interpreter ends
