"""A callback sets the trainer's should_stop on rank 1 alone; its epoch loop ends, the others' not.

ranks: 3
expect: op_mismatch role_mismatch missing_call shape_mismatch
suspects: 1
status: diverged hung
cause: rank 1; should_stop; SETS | LOOP | DONE; BUG
fix: not self.done; LOOP; decide together | all_reduce; MIN
never: extra call; drop_last; DistributedSampler; join(); depends on the rank;
    /[Mm]ove \\w+ out of/; same number of batches
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init


class EarlyStopping:
    """Looks at the last loss of the rank after each epoch."""

    def __init__(self, bound: float) -> None:
        self.bound = bound

    def on_epoch_end(self, trainer: "Trainer") -> None:
        worse = torch.tensor(float(trainer.last_loss > self.bound))
        if TWIN:
            dist.all_reduce(worse, op=dist.ReduceOp.MAX)
        if worse:
            trainer.should_stop = True  # SETS


class Trainer:
    def __init__(self, max_epochs: int, callbacks: list[EarlyStopping]) -> None:
        self.max_epochs, self.callbacks = max_epochs, callbacks
        self.current_epoch, self.should_stop, self.last_loss = 0, False, 0.0

    @property
    def done(self) -> bool:
        return self.should_stop or self.current_epoch >= self.max_epochs  # DONE

    def fit(self, model: nn.Module, data: torch.Tensor) -> None:
        while not self.done:  # LOOP
            for batch in data:
                loss = model(batch).square().mean() + batch.mean() * self.current_epoch
                loss.backward()  # BUG
                self.last_loss = float(loss)
            for callback in self.callbacks:
                callback.on_epoch_end(self)
            self.current_epoch += 1
        dist.barrier()


rank = init()
torch.manual_seed(0)
samples = torch.zeros(3, 2, 4)
if rank == 1:
    samples += 1.0
trainer = Trainer(max_epochs=8, callbacks=[EarlyStopping(bound=4.0)])
trainer.fit(DistributedDataParallel(nn.Linear(4, 1)), samples)
dist.destroy_process_group()
