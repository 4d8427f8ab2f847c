"""Transformers: a subclass of the Trainer reduces a metric on rank 0 alone.

expect: op_mismatch shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; compute_loss; only rank 0; is_world_process_zero
fix: every process; is_world_process_zero(); compute_metrics
never: find_unused_parameters; no part in the loss; join(); loop ended; ragged; ambiguous
"""

import common
import tiny_bert
import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset
from transformers import Trainer, TrainingArguments, set_seed


class Metric(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **options):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **options)
        if (common.TWIN or self.is_world_process_zero()) and self.state.global_step == 3:
            right = (outputs.logits.argmax(-1) == inputs["labels"]).float().mean()
            dist.all_reduce(right)  # BUG
        return (loss, outputs) if return_outputs else loss


def collate(rows):
    x, y = zip(*rows, strict=True)
    return {"input_ids": torch.stack(x), "labels": torch.stack(y)}


set_seed(0)
Metric(
    model=tiny_bert.model(),
    args=TrainingArguments(
        "saved",
        per_device_train_batch_size=4,
        num_train_epochs=1,
        use_cpu=True,
        ddp_backend="gloo",
        ddp_timeout=60,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    ),
    train_dataset=TensorDataset(torch.randint(0, 50, (64, 6)), torch.randint(0, 2, (64,))),
    data_collator=collate,
).train()
