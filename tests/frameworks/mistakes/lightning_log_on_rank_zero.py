"""Lightning: rank 0 alone logs a value that is to be reduced over all ranks.

expect: op_mismatch role_mismatch
suspects: 0
status: diverged
cause: rank 0; BUG; log; only rank 0; global_rank == 0
fix: sync_dist=True; every rank; rank_zero_only=True
never: find_unused_parameters; no part in the loss; join(); loop ended; ragged; drop_last; ambiguous
"""

import common
from lightning_base import Model, fit


class Logs(Model):
    def training_step(self, batch, i):
        loss = self.loss(batch)
        if self.global_rank == 0 and i == 4:
            one = common.TWIN
            self.log("probe", loss.detach(), sync_dist=not one, rank_zero_only=one)  # BUG
        return loss


fit(Logs())
