"""What a text must mention, as the header of a case says it.

    rank 0; all_reduce | reduce; BUG

Requirements are parted by ``;``, the alternatives of one by ``|``. An alternative is looked for
as it stands, in whole words and whatever its capitals; ``permut*`` has any ending, and what stands
between slashes is a regular expression. Names of files are not searched. ``BUG``, like every name
in capitals that marks a line of the script, stands for the place of one of the lines so marked,
such as ``order_swapped.py:17``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_BAR: Final = re.compile(r"\|(?=(?:[^/]|/[^/]*/)*$)")
"""Parts alternatives, unless it stands between slashes."""

_FILE: Final = re.compile(r"[\w./-]*\w\.py(:\d+)?")


@dataclass(frozen=True)
class _Requirement:
    """Met by a place that is named, or by words that are no part of a file's name."""

    header: str
    places: re.Pattern[str]
    words: re.Pattern[str]

    def met_by(self, text: str) -> str | None:
        """What of a text meets it."""
        hit = self.places.search(text) or self.words.search(_FILE.sub(" ", text))
        return hit.group() if hit else None


_RANKS: Final = re.compile(r"\branks \d[\d,-]*(?:(?:, | and )\d[\d,-]*)*")


def _each(ranks: str) -> str:
    """Return ``rank 0; rank 1; rank 2`` for ``ranks 0-2``."""
    runs = re.findall(r"(\d+)(?:-(\d+))?", ranks)
    each = [n for low, high in runs for n in range(int(low), int(high or low) + 1)]
    return "; ".join(f"rank {n}" for n in each[:64])


@dataclass(frozen=True)
class Mentions:
    """What a header asks for, ready to be looked for."""

    requirements: tuple[_Requirement, ...] = ()

    @staticmethod
    def parse(
        text: str, marks: Mapping[str, Sequence[str]], synonyms: Mapping[str, str] | None = None
    ) -> Mentions:
        """From a header; ``marks`` are the places of the marked lines, by the name of the mark.

        ``synonyms`` are more alternatives, in the notation of a header, by the one that has them.
        """
        wanted = (" ".join(part.split()) for part in text.split(";"))
        return Mentions(tuple(_requirement(part, marks, synonyms or {}) for part in wanted if part))

    def missing_in(self, text: str) -> list[str]:
        """The requirements that a text does not meet, as they stand in the header.

        ``ranks 0-2`` mentions each of these ranks, too.
        """
        text = "; ".join((text, *map(_each, _RANKS.findall(text))))
        return [one.header for one in self.requirements if one.met_by(text) is None]

    def found_in(self, text: str) -> list[str]:
        """What of it a text says, word for word."""
        return [hit for hit in (one.met_by(text) for one in self.requirements) if hit is not None]


def _requirement(
    header: str, marks: Mapping[str, Sequence[str]], synonyms: Mapping[str, str]
) -> _Requirement:
    places, words = [], []
    written = [word.strip() for word in _BAR.split(header)]
    more = [_BAR.split(synonyms[word.lower()]) for word in written if word.lower() in synonyms]
    for word in (*written, *(word.strip() for those in more for word in those)):
        if word in marks:
            places += [_whole(place) for place in marks[word]]
        elif _FILE.fullmatch(word):
            places.append(_whole(word))
        else:
            words.append(_pattern(word))
    return _Requirement(header, _any_of(places), _any_of(words))


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    nothing = r"(?!)"
    return re.compile("|".join(patterns) or nothing, re.IGNORECASE)


def _pattern(word: str) -> str:
    if len(word) > 2 and word[0] == word[-1] == "/":
        return word[1:-1]
    if word.endswith("*"):
        return r"(?<!\w)" + re.escape(word[:-1])
    return _whole(word)


def _whole(word: str) -> str:
    """Not as a part of a longer word: neither ``call 4`` in ``call 41`` nor ``in`` in ``join``."""
    before = r"(?<!\w)" if word[0].isalnum() else ""
    after = r"(?!\w)" if word[-1].isalnum() else ""
    return before + re.escape(word) + after
