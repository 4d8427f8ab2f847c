"""An actor puts off an update of its weights, and tags what it sends with a version of its own.

A learner takes trajectories from two actors, tagged with the version of the weights that it last
sent them. Rank 2 is in the middle of a long episode when version 6 comes: it throws it away, and
the counter stays. What it sends next has a tag that nobody waits for.

ranks: 3
expect: p2p_unmatched
suspects: 2
status: hung diverged
cause: BUG; TAKES; rank 2 alone; tag 6
fix: rank 2 pass tag 6
never: network; wrong peer; dtype; size of
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

LEARNER = 0
POLICY = 12
HORIZON = 16
UPDATES = 10


class Learner:
    """Publishes a version, and trains on what was collected with it."""

    def __init__(self, actors: range) -> None:
        self.actors = actors
        self.policy = torch.zeros(POLICY)
        self.version = 0

    def publish(self) -> None:
        self.version += 1
        for actor in self.actors:
            dist.send(self.policy, dst=actor)

    def collect(self) -> torch.Tensor:
        rewards = []
        for actor in self.actors:
            trajectory = torch.empty(HORIZON)
            dist.recv(trajectory, src=actor, tag=self.version)  # TAKES
            rewards.append(trajectory.mean())
        return torch.stack(rewards)

    def run(self) -> None:
        for _ in range(UPDATES):
            self.publish()
            self.policy += 0.01 * self.collect().sum()


class Actor:
    """Acts with the weights of one version for a whole episode."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.policy = torch.zeros(POLICY)
        self.version = 0

    def in_episode(self, update: int) -> bool:
        return self.rank == 2 and update == 5

    def update_policy(self, update: int) -> None:
        fresh = torch.empty(POLICY)
        dist.recv(fresh, src=LEARNER)
        if self.in_episode(update) and not TWIN:
            return  # the episode goes on with the weights it began with
        self.policy.copy_(fresh)
        self.version += 1

    def rollout(self) -> torch.Tensor:
        return torch.rand(HORIZON) + self.policy.mean()

    def run(self) -> None:
        for update in range(UPDATES):
            self.update_policy(update)
            dist.send(self.rollout(), dst=LEARNER, tag=self.version)  # BUG


rank = init()
if rank == LEARNER:
    Learner(range(1, dist.get_world_size())).run()
else:
    Actor(rank).run()
dist.destroy_process_group()
