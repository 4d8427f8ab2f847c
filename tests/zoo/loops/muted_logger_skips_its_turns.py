"""The rank that decodes samples leaves its logging muted, and then has no turns in the ordered log.

The adapter writes in the order of the ranks, with a barrier for each turn, as accelerate's does
(accelerate issue 3939, pull request 1262); a level that is not enabled returns before the barriers.

ranks: 3
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; isEnabledFor
fix: every rank | all ranks | isEnabledFor
never: drop_last; join(); find_unused_parameters
"""

import logging
import sys
from typing import Any

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

CHATTER = logging.DEBUG if TWIN else logging.INFO  # what is muted while the tokenizer works
DECODER = 1  # the rank that has the vocabulary


class RankedLogger(logging.LoggerAdapter[logging.Logger]):
    """Info and warnings of all ranks, in the order of the ranks if asked for."""

    def log(self, level: int, msg: str, *args: Any, in_order: bool = False, **kwargs: Any) -> None:  # type: ignore[override]
        if not self.isEnabledFor(level):
            return
        if not in_order:
            self.logger.log(level, msg, *args, **kwargs)
            return
        for turn in range(dist.get_world_size()):
            if turn == dist.get_rank():
                self.logger.log(level, f"[rank {turn}] {msg}", *args, **kwargs)
            dist.barrier()  # BUG


def write_samples(texts: list[str], log: RankedLogger) -> None:
    logging.disable(CHATTER)
    lines = [text.strip() for text in texts if text.strip()]
    if not lines:
        log.warning("nothing but blanks was decoded")
        return
    log.debug("vocabulary of %d", len({*"".join(lines)}))
    print("\n".join(lines))
    logging.disable(logging.NOTSET)


rank = init()
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
log = RankedLogger(logging.getLogger("train"), {})
torch.manual_seed(rank)
weight = torch.zeros(6)

for epoch in range(3):
    for _ in range(4):
        grad = torch.randn(6) + weight
        dist.all_reduce(grad)
        weight -= 0.1 * grad / dist.get_world_size()
    if rank == DECODER:
        write_samples(["a cat ", "", " on a mat"] if epoch == 0 else ["", "  "], log)
    log.info("epoch %d: %.4f", epoch, float(weight.norm()), in_order=True)

dist.destroy_process_group()
