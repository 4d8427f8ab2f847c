"""A wrapper swallows the error of a request on rank 1, which then goes without its reduction.

Rank 0 has done in step 4 what both did in every step before; rank 1 has not.

ranks: 2
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; FAILED; HANDLER; `if rewards is not None:`; RequestException
fix: rewards is not None; decide together; every rank
never: ambiguous; do not show which; depends on the rank; extra broadcast; /[Mm]ove \\w+/
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

DOWN = () if TWIN else ((1, 4),)
"""Rank and step in which the service does not answer."""


class RequestException(OSError):
    """As a library for HTTP raises them."""


class ServiceUnavailable(RequestException):
    pass


class Client:
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def rewards(self, step: int) -> list[float]:
        if (self.rank, step) in DOWN:
            raise ServiceUnavailable(f"503 Server Error for /rewards/{step}")
        return [0.5, 1.0 + step]


def ask(client: Client, step: int) -> torch.Tensor | None:
    try:
        return torch.tensor(client.rewards(step))
    except RequestException as error:  # HANDLER
        print("no rewards:", error, flush=True)
        return None


def train(client: Client) -> None:
    policy = torch.zeros(3)
    for step in range(8):
        rewards = ask(client, step)
        if rewards is not None:  # FAILED
            dist.all_reduce(rewards)  # BUG
            policy += 0.1 * rewards.mean()
        dist.broadcast(policy, src=0)


train(Client(init()))
dist.destroy_process_group()
