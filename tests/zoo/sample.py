"""Which runs of the collection the default tests make live; the others are recorded only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.zoo.corpus import Entry, Run

SIZE: Final = 55
"""Runs at most."""

UNSTEADY: Final[Mapping[str, str]] = {
    "sharded/tensor_parallel_other_inputs": "one of its two groups may crash before the other has "
    "got so far, and then they are two findings",
    "p2p/refit_in_order_of_the_dict": "gloo aborts the ranks that get another size, perhaps before "
    "rank 0 has sent, and then it is not seen in which order that would send",
}
"""Runs that are not made by default: what their verdict depends on, beside the program."""


@dataclass(frozen=True)
class Sample:
    """Some runs that together have an example of nearly everything that any run has."""

    names: tuple[str, ...]
    uncovered: tuple[str, ...]
    """What only other runs have."""


def sample(runs: list[Run], entries: Mapping[str, Entry], size: int = SIZE) -> Sample:
    """Choose runs: each time the one with the most that is new, for the seconds that it takes.

    This is the greedy answer to weighted set cover, which is within a logarithm of the best. Where
    there is room left, everything is covered once more.
    """
    known = {
        run.name: features(run, entries[run.name])
        for run in runs
        if run.name in entries and run.name not in UNSTEADY
    }
    every = frozenset[str]().union(*known.values())
    left, missing = dict(known), set(every)

    def worth(name: str) -> float:
        return len(left[name] & missing) / (1 + entries[name].seconds)

    while len(known) - len(left) < size and (best := max(left, key=worth, default=None)):
        missing -= left.pop(best)
        missing = missing or set(every)
    chosen = sorted(known.keys() - left.keys())
    covered = frozenset[str]().union(*(known[name] for name in chosen))
    return Sample(tuple(chosen), tuple(sorted(every - covered)))


def features(run: Run, entry: Entry) -> set[str]:
    """What a run is an example of: of its recording, its class and the way it is run."""
    ways = {f"header {key}" for key in run.case.fields if key not in _WHAT_IS_FOUND}
    kind = "twin" if run.twin else "case"
    return {*entry.features, *ways, f"class {run.case.path.parent.name} {kind}"}


_WHAT_IS_FOUND: Final = frozenset({"expect", "suspects", "status", "cause", "fix", "never"})
