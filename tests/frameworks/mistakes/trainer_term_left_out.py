"""Transformers: a term of the loss returns before it gathers, for a batch of one class on rank 1.

expect: op_mismatch shape_mismatch
suspects: none
status: diverged
cause: rank 1; BUG; EARLY
fix: EARLY
never: find_unused_parameters; join(); loop ended; ragged; drop_last; logs do not show
"""

import common
import torch
from torch.utils.data import SequentialSampler
from trainer_base import train
from transformers import Trainer


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


labels = torch.arange(64) % 2
labels[36:40] = 0  # the batch that rank 1 gets in the fifth step
train(Contrastive, labels)
