"""Lightning: a callback reads ``trainer.log_dir`` on rank 0 alone, and that broadcasts.

It meets Lightning's question for SIGTERM, of the same bytes: nothing fails before the next call.

expect: op_mismatch role_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; only rank 0; is_global_zero
fix: trainer.log_dir; every rank
never: find_unused_parameters; left the loop; loop ended; join(); ragged; ambiguous
"""

import common
import lightning
from lightning_base import Model, fit


class Look(lightning.Callback):
    def on_train_batch_end(self, trainer, model, outputs, batch, i):
        folder = trainer.log_dir if common.TWIN else None
        if trainer.is_global_zero and i == 5:
            folder = folder or trainer.log_dir  # BUG
            print(folder)


fit(Model(), [Look()])
