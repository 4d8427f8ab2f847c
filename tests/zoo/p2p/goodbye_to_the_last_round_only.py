"""The server says goodbye to the clients of the last round only: client 2 was not among them.

It waits for its next task for ever.

ranks: 4
expect: p2p_unmatched
suspects: none
status: hung
cause: rank 2 | ranks 2; rank 0; WAIT; GOODBYE
fix: send* | sent | match* | message* | recv | tell | every client | all clients | each client
never: /ranks? (1,3|1|3) (is|are|was|were) (wrong|to blame|guilty|at fault)/
"""

import random

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

TRAIN, DONE = 1, 0
SIZE = 16


class Server:
    def __init__(self, clients: list[int], per_round: int, rounds: int) -> None:
        self.clients, self.per_round, self.rounds = clients, per_round, rounds
        self.weights = torch.zeros(SIZE)
        self.picked: list[int] = []

    def tell(self, client: int, status: int) -> None:
        dist.send(torch.tensor([status]), client)  # BUG

    def round(self, number: int) -> None:
        self.picked = sorted(random.Random(6 + number).sample(self.clients, self.per_round))
        for client in self.picked:
            self.tell(client, TRAIN)
            dist.send(self.weights, client)
        updates = []
        for client in self.picked:
            update = torch.empty(SIZE)
            dist.recv(update, client)
            updates.append(update)
        self.weights = torch.stack(updates).mean(0)

    def run(self) -> None:
        for number in range(self.rounds):
            self.round(number)
        for client in self.clients if TWIN else self.picked:
            self.tell(client, DONE)  # GOODBYE


class Client:
    def __init__(self, rank: int) -> None:
        self.data = torch.randn(SIZE, generator=torch.Generator().manual_seed(rank))

    def train(self, weights: torch.Tensor, epochs: int = 3) -> torch.Tensor:
        for _ in range(epochs):
            weights = weights - 0.1 * (weights - self.data)
        return weights

    def run(self) -> None:
        while True:
            status = torch.empty(1, dtype=torch.int64)
            dist.recv(status, 0)  # WAIT
            if status.item() == DONE:
                break
            weights = torch.empty(SIZE)
            dist.recv(weights, 0)
            dist.send(self.train(weights), 0)


rank = init()
dist.barrier()
party = Server(clients=[1, 2, 3], per_round=2, rounds=5) if rank == 0 else Client(rank)
party.run()
dist.destroy_process_group()
