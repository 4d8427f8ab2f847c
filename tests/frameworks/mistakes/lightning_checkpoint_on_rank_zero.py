"""Lightning: a callback saves a checkpoint on rank 0 alone.

expect: op_mismatch role_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; checkpoint; only rank 0; is_global_zero
fix: trainer.save_checkpoint(); every rank; writes on rank 0 by itself
never: find_unused_parameters; left the loop; loop ended; ragged; drop_last; ambiguous
"""

import common
import lightning
from lightning_base import Model, fit


class Save(lightning.Callback):
    def on_train_batch_end(self, trainer, model, outputs, batch, i):
        if (common.TWIN or trainer.is_global_zero) and i == 5:
            trainer.save_checkpoint("saved.ckpt")  # BUG


fit(Model(), [Save()])
