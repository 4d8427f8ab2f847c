"""Transformers: a subclass of the Trainer reduces a metric on rank 0 alone.

expect: op_mismatch shape_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; compute_loss; only rank 0; is_world_process_zero
fix: every process; is_world_process_zero(); compute_metrics
never: find_unused_parameters; no part in the loss; join(); loop ended; ragged; ambiguous
"""

import common
import torch.distributed as dist
from trainer_base import train
from transformers import Trainer


class Metric(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **options):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **options)
        if (common.TWIN or self.is_world_process_zero()) and self.state.global_step == 3:
            right = (outputs.logits.argmax(-1) == inputs["labels"]).float().mean()
            dist.all_reduce(right)  # BUG
        return (loss, outputs) if return_outputs else loss


train(Metric)
