r"""Each camera reports what it has seen, in as many parts as there were hours; one saw nothing.

The station asks each camera for a first part in every watch. How many are to come differs from
watch to watch, and is in that part.

ranks: 4
expect: deadlock p2p_unmatched
suspects: 3
status: hung
cause: rank 3; BUG; WATCH; SEEN; ranks 1-2 did; did not come
fix: every round; with zeros | empty
never: network; drop_last; rank 0 alone; fewer steps
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

STATION = 0


class Camera:
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def sightings(self, hours: int, watch: int) -> torch.Tensor:
        rows = torch.arange(hours * 2.0).reshape(hours, 2)
        return rows[rows[:, 0] > 90] if (self.rank, watch) == (3, 3) else rows

    def report(self, seen: torch.Tensor) -> None:
        if not len(seen) and not TWIN:  # SEEN
            return
        dist.send(torch.tensor([float(len(seen))]), dst=STATION)  # BUG
        for row in seen:
            dist.send(row.clone(), dst=STATION)


def collect(cameras: range) -> int:
    parts = 0
    for camera in cameras:
        count = torch.zeros(1)
        dist.recv(count, src=camera)
        for _ in range(int(count)):
            dist.recv(torch.empty(2), src=camera)
            parts += 1
    return parts


def main() -> None:
    rank = init()
    camera = Camera(rank)
    for watch, hours in enumerate((2, 1, 3, 2, 1)):
        if rank == STATION:
            print(watch, collect(range(1, dist.get_world_size())), flush=True)
        else:
            camera.report(camera.sightings(hours, watch))
        dist.barrier()  # WATCH
    dist.destroy_process_group()


main()
