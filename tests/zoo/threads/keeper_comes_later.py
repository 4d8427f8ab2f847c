"""On rank 1 the thread that saves announces its shard after the next step's all_reduce.

Elsewhere it does before that; both share the default group. Rank 1 hands over its state in two
parts, the second after the next step, the others all at once.

ranks: 3
expect: op_mismatch deadlock
suspects: 1
status: diverged hung
cause: rank 1; BUG; thread | threads
fix: group of its own | own group | another group | new_group | separate group | group for
    | same order | one thread
never: raised before; left the loop
"""

from __future__ import annotations

import queue
import threading

import torch
import torch.distributed as dist

from tests.zoo.common import TIMEOUT, TWIN, init

STEPS = 8
SAVE_EVERY = 3
PART = 40


class Keeper:
    """Saves states while the training goes on."""

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        self._group = group
        self._parts: queue.Queue[tuple[torch.Tensor, bool] | None] = queue.Queue()
        self._later: list[torch.Tensor] = []
        self._posted = threading.Event()
        self.saved: list[int] = []
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    def save(self, state: torch.Tensor) -> None:
        first, *self._later = state[:PART], *([state[PART:]] if len(state) > PART else [])
        self._posted.clear()
        self._parts.put((first.clone(), not self._later))
        if not self._later:
            self._posted.wait()

    def go_on(self) -> None:
        """Between steps: hand over what did not fit into the staging buffer."""
        if self._later:
            part = self._later.pop(0)
            self._parts.put((part.clone(), not self._later))
            if not self._later:
                self._posted.wait()

    def close(self) -> None:
        self._parts.put(None)
        self._thread.join()

    def _run(self) -> None:
        size = 0
        while (item := self._parts.get()) is not None:
            part, last = item
            size += part.numel()
            if last:
                self._announce(size)
                size = 0

    def _announce(self, size: int) -> None:
        mine = torch.tensor([size])
        sizes = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
        work = dist.all_gather(sizes, mine, group=self._group, async_op=True)  # BUG
        self._posted.set()
        work.wait()
        self.saved.append(int(sum(sizes)))


def state_of(rank: int) -> torch.Tensor:
    return torch.ones(60 if rank == 1 else 36)


def train(keeper: Keeper, state: torch.Tensor) -> None:
    for step in range(STEPS):
        loss = torch.tensor([state.mean().item() * step])
        dist.all_reduce(loss)  # BUG
        keeper.go_on()
        state.mul_(0.9)
        if step % SAVE_EVERY == SAVE_EVERY - 1:
            keeper.save(state)


def main() -> None:
    rank = init()
    keeper = Keeper(dist.new_group(timeout=TIMEOUT) if TWIN else None)
    train(keeper, state_of(rank))
    keeper.close()
    print(keeper.saved, flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
