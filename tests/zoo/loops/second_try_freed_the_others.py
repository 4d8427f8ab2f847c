"""An exception passes by the barrier of rank 0 in "main process first"; whoever loads swallows it.

Its barrier of the second attempt lets the others through the first; they miss the same file, try
again as well, and wait at their second barrier for a rank 0 that is already training.

ranks: 3
expect: op_mismatch missing_call role_mismatch
suspects: 0
status: diverged hung
cause: rank 0; BUG | ENTRY
fix: every rank | all ranks | each rank | all of them | finally
never: ragged batch; find_unused_parameters; rank 1 skipped
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init


@contextmanager
def main_first(rank: int) -> Iterator[None]:
    if rank != 0:
        dist.barrier()  # ENTRY
    if TWIN:
        try:
            yield
        finally:
            if rank == 0:
                dist.barrier()
    else:
        yield  # BUG
        if rank == 0:
            dist.barrier()  # BUG


class Corpus:
    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size

    def tokens(self) -> list[int]:
        return [(7 * place) % 5 for place in range(self.size)]


class IndexCache:
    """Indices of the corpora, on the disk of each rank."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.folder, self.rank = folder, rank

    def load(self, corpus: Corpus) -> list[int]:
        try:
            with main_first(self.rank):
                return self._read(corpus)  # BUG
        except FileNotFoundError:
            with main_first(self.rank):
                self._build(corpus)
                return self._read(corpus)

    def _path(self, corpus: Corpus) -> Path:
        return self.folder / f"{corpus.name}.{self.rank}.json"

    def _read(self, corpus: Corpus) -> list[int]:
        index: list[int] = json.loads(self._path(corpus).read_text())
        return index

    def _build(self, corpus: Corpus) -> None:
        self._path(corpus).write_text(json.dumps(sorted(corpus.tokens())))


def train(index: list[int], weights: torch.Tensor, rank: int) -> None:
    for token in index[:4]:
        gradient = torch.full_like(weights, float(token + rank))
        dist.all_reduce(gradient)
        weights -= 0.01 * gradient


def main() -> None:
    rank = init()
    weights = torch.ones(6)
    corpora = [Corpus("news", 8), Corpus("books", 12), Corpus("code", 10), Corpus("web", 9)]
    with tempfile.TemporaryDirectory() as folder:
        cache = IndexCache(Path(folder), rank)
        for corpus in corpora[:2]:
            cache._build(corpus)
        for epoch in range(2):
            for corpus in corpora:
                index = cache.load(corpus)
                train(index, weights, rank)
                print(epoch, corpus.name, len(index), flush=True)
    dist.destroy_process_group()


main()
