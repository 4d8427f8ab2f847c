"""Numbers, ranks and lists as parts of sentences, the same in every finding and report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_MOST_RUNS: Final = 12
"""Runs of numbers that are listed; of more the first are, and how many there are."""

_LONGEST: Final = 24
"""Characters of a list of ranks that a sentence can hold."""

_FIRST: Final = 2
"""Runs that stand for a list that is longer."""

_SERIES: Final = 5
"""Numbers at equal distances that are told as a series."""


def ranges(numbers: Iterable[int]) -> str:
    """``0-2,5``: sorted, neighbours joined; ``0,8,..,504``; ``0,3,5-7,9,12,.. (40 in all)``."""
    chosen = sorted(set(numbers))
    step = chosen[1] - chosen[0] if len(chosen) >= _SERIES else 1
    if step > 1 and chosen == list(range(chosen[0], chosen[-1] + 1, step)):
        return f"{chosen[0]},{chosen[1]},..,{chosen[-1]}"
    runs: list[list[int]] = []
    for n in chosen:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    told = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    if len(told) <= _MOST_RUNS:
        return ",".join(told)
    return f"{','.join(told[: _MOST_RUNS - 2])},.. ({len(chosen)} in all)"


def ranks(members: Iterable[int]) -> str:
    """``rank 1``, ``ranks 0-2,5``; of a list too long for a sentence ``56 ranks (1-7,9-15,..)``."""
    chosen = sorted(set(members))
    listed = ranges(chosen)
    if len(listed) > _LONGEST:
        return f"{len(chosen)} ranks ({','.join(listed.split(',')[:_FIRST])},..)"
    return f"rank{'s' * (len(chosen) != 1)} {listed}"


def verb(members: Sequence[int], singular: str, plural: str) -> str:
    """The form of a verb that fits the number of ranks."""
    return singular if len(members) == 1 else plural


def upper(text: str) -> str:
    """With a capital first letter, the rest as it is."""
    return text[:1].upper() + text[1:]


def ordinal(n: int) -> str:
    """``1st``, ``2nd``, ``11th``."""
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{suffix}"


def counted(n: int, noun: str, plural: str = "") -> str:
    """``1 call``, ``1,234 calls``, ``2 batches``."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def listed(parts: Sequence[str]) -> str:
    """``a``; ``a and b``; ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
