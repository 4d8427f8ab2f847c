"""Every rank tosses its own coin whether to train the discriminator; once rank 1 alone does so.

ranks: 4
expect: op_mismatch
suspects: 1
status: diverged
cause: rank 1; BUG; random* | DECIDES
fix: same | seed* | broadcast | every rank | all ranks | each rank | one rank | agree* | identical*
never: /ranks? (0,2,3|0,2-3|0, 2 and 3) (is|are) (wrong|to blame|guilty)/; find_unused_parameters;
    drop_last; uneven*
"""

import random
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

SEED, WARMUP_EPOCHS, P_DISC = 1587, 1, 2 / 3
BANDWIDTHS = (1.5, 3.0, 6.0, 12.0)


class Codec(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(16, 8), nn.Linear(8, 16)

    def forward(self, wav: torch.Tensor) -> torch.Tensor:
        index = torch.tensor(random.randrange(len(BANDWIDTHS)))
        dist.broadcast(index, src=0)
        keep = int(8 * BANDWIDTHS[int(index)] / 12)
        code = self.encoder(wav)
        kept = torch.cat([code[:, :keep], code[:, keep:] * 0], dim=1)
        return self.decoder(kept)  # type: ignore[no-any-return]


class Trainer:
    def __init__(self) -> None:
        self.codec = DistributedDataParallel(Codec())
        disc = nn.Sequential(nn.Linear(16, 4), nn.LeakyReLU(), nn.Linear(4, 1))
        self.disc = DistributedDataParallel(disc)
        self.opt_g = torch.optim.AdamW(self.codec.parameters(), lr=1e-3)
        self.opt_d = torch.optim.AdamW(self.disc.parameters(), lr=1e-3)

    def generator_step(self, wav: torch.Tensor) -> torch.Tensor:
        self.opt_g.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            fake = self.codec(wav)
            loss = (fake - wav).abs().float().mean()
        loss.backward()
        self.opt_g.step()
        return fake.detach().float()  # type: ignore[no-any-return]

    def discriminator_step(self, wav: torch.Tensor, fake: torch.Tensor) -> None:
        self.opt_d.zero_grad()
        score = self.disc(torch.cat([wav, fake]))
        real, made = score.chunk(2)
        ((1 - real).relu().mean() + (1 + made).relu().mean()).backward()  # BUG
        self.opt_d.step()

    def one_epoch(self, epoch: int, batches: Iterable[torch.Tensor]) -> None:
        for wav in batches:
            fake = self.generator_step(wav)
            train_disc = epoch >= WARMUP_EPOCHS and random.random() < P_DISC  # DECIDES
            if train_disc:
                self.discriminator_step(wav, fake)


def main(rank: int) -> None:
    random.seed(SEED + (0 if TWIN else rank))
    gen = torch.Generator().manual_seed(100 + rank)
    trainer = Trainer()
    for epoch in range(4):
        trainer.one_epoch(epoch, [torch.randn(4, 16, generator=gen) for _ in range(4)])


main(init())
dist.destroy_process_group()
