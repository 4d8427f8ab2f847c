"""Transformers: a term of the loss returns before it gathers, for a batch of one class on rank 1.

expect: op_mismatch shape_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; EARLY
fix: EARLY
never: find_unused_parameters; join(); loop ended; ragged; drop_last; logs do not show
"""

import common
import tiny_bert
import torch
from torch.utils.data import SequentialSampler, TensorDataset
from transformers import Trainer, TrainingArguments, set_seed


class Contrastive(Trainer):
    def _get_train_sampler(self, *args, **options):
        return SequentialSampler(self.train_dataset)

    def term(self, values, labels):
        if labels.unique().numel() < 2 and not common.TWIN:  # EARLY
            return values.new_zeros(())
        return self.accelerator.gather(values.detach()).mean()  # BUG

    def compute_loss(self, model, inputs, return_outputs=False, **options):
        outputs = model(**inputs)
        loss = outputs.loss + self.term(outputs.logits, inputs["labels"])
        return (loss, outputs) if return_outputs else loss


def collate(rows):
    x, y = zip(*rows, strict=True)
    return {"input_ids": torch.stack(x), "labels": torch.stack(y)}


set_seed(0)
labels = torch.arange(64) % 2
labels[36:40] = 0  # the batch that rank 1 gets in the fifth step
Contrastive(
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
    train_dataset=TensorDataset(torch.randint(0, 50, (64, 6)), labels),
    data_collator=collate,
).train()
