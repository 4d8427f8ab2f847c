"""A case of the collection: a script, and what its header says must be found in it.

The header is the script's docstring: a line that says what happens, then, one a line::

    ranks: 3                how many processes (2)
    expect: op_mismatch     kinds, any of which is right; `nothing`
    suspects: 2             ranks to blame; `none`
    status: diverged        of the alignment; any of several
    severity: error         of the finding (error)
    cause: rank 0; BUG      what headline, cause and notes of the finding must mention
    fix: every rank | none  what its fix must mention
    never: ragged batch     what no finding, and no word about a rank, may claim: `;` and `|` alike
    limit: 20               seconds after the start until whoever still runs is killed (12; of a
                            twin, and of what must not be flagged, 60)
    live: yes               aligned before they are killed (no)
    kill_after: 2           seconds after which every rank gets SIGKILL at once
    interrupt_after: 2      seconds after which every rank gets SIGINT at once, as by Ctrl-C
    lost_log: 2 3           the files of these ranks are gone when the logs are aligned
    untraced: 1             nobody called enable() on these ranks
    env: NAME=VALUE ...     environment of the ranks
    synthetic: yes          the script writes the logs itself; for what gloo on CPU cannot run
    twin_status: unknown    of the twin (aligned)

A value may go on in indented lines. ``cause``, ``fix`` and ``never`` say what is true of the
script, in the notation of tests/zoo/mentions.py. ``# BUG`` ends the guilty line; several lines may
be marked, and any other name in capitals marks a line that the header speaks of. A script that
looks at ``TWIN`` has a correct twin. ``# BUG`` and ``expect`` are about the case as it stands.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from tests.zoo.mentions import Mentions
from tests.zoo.synonyms import SYNONYMS

HERE: Final = Path(__file__).parent
_FIELDS: Final = frozenset(
    {"ranks", "expect", "suspects", "status", "severity", "cause", "fix", "never", "limit", "live",
     "kill_after", "interrupt_after", "lost_log", "untraced", "env", "synthetic", "twin_status"}
)  # fmt: skip
_FIELD: Final = re.compile(r"^(\w+): (.+(?:\n[ \t]+.+)*)$", re.MULTILINE)
_MARK: Final = re.compile(r"  # ([A-Z]{2,})$")


@dataclass(frozen=True)
class Case:
    """One script, and its verdict."""

    path: Path
    title: str
    fields: dict[str, str]
    source: str

    @property
    def name(self) -> str:
        """Such as ``matching/order_swapped``; of a script elsewhere the file's name."""
        path = self.path.relative_to(HERE) if self.path.is_relative_to(HERE) else self.path.name
        return str(Path(path).with_suffix(""))

    @property
    def ranks(self) -> int:
        return int(self.fields.get("ranks", "2"))

    @property
    def expect(self) -> tuple[str, ...]:
        """Kinds of finding that are right; none: it must not be flagged."""
        kinds = self.fields["expect"].split()
        return () if kinds == ["nothing"] else tuple(kinds)

    @property
    def severity(self) -> str:
        return self.fields.get("severity", "error")

    @property
    def is_error(self) -> bool:
        """Whether a job does this wrong, so that a tool has to speak up."""
        return bool(self.expect) and self.severity == "error"

    @property
    def suspects(self) -> tuple[int, ...]:
        return self._ranks("suspects")

    def _ranks(self, field: str) -> tuple[int, ...]:
        text = self.fields.get(field, "none")
        return () if text == "none" else tuple(int(rank) for rank in text.split())

    @cached_property
    def cause(self) -> Mentions:
        """What must be said of it."""
        return self._mentions("cause", SYNONYMS)

    @cached_property
    def fix(self) -> Mentions:
        """What must be advised."""
        return self._mentions("fix", SYNONYMS)

    @cached_property
    def never(self) -> Mentions:
        """What must not be claimed, nor advised."""
        return self._mentions("never")

    def _mentions(self, field: str, synonyms: Mapping[str, str] | None = None) -> Mentions:
        places = marked_places(self.path, self.source)
        return Mentions.parse(self.fields.get(field, ""), places, synonyms)

    def limit(self, twin: bool) -> float:
        """Seconds until whoever still runs is killed."""
        usual = "12" if self.is_error else "60"
        return 60.0 if twin else float(self.fields.get("limit", usual))

    @property
    def live(self) -> bool:
        return self.fields.get("live") == "yes"

    @property
    def synthetic(self) -> bool:
        return self.fields.get("synthetic") == "yes"

    @property
    def kill_after(self) -> float | None:
        return self._seconds("kill_after")

    @property
    def interrupt_after(self) -> float | None:
        return self._seconds("interrupt_after")

    def _seconds(self, field: str) -> float | None:
        text = self.fields.get(field)
        return None if text is None else float(text)

    @property
    def lost_logs(self) -> tuple[int, ...]:
        return self._ranks("lost_log")

    @property
    def untraced(self) -> tuple[int, ...]:
        return self._ranks("untraced")

    @property
    def env(self) -> dict[str, str]:
        pairs = (pair.partition("=") for pair in self.fields.get("env", "").split())
        return {name: value for name, _, value in pairs}

    @property
    def has_twin(self) -> bool:
        return re.search(r"\bTWIN\b", self.source) is not None

    def status(self, twin: bool) -> tuple[str, ...]:
        """Statuses of the alignment that are right."""
        text = self.fields.get("twin_status", "aligned") if twin else self.fields["status"]
        return tuple(text.split())

    @cached_property
    def guilty(self) -> tuple[str, ...]:
        """The guilty lines, as the end of a site."""
        return tuple(marked_places(self.path, self.source).get("BUG", ()))


def marked_places(path: Path, source: str) -> dict[str, list[str]]:
    """The lines that end in a mark, as the end of a site; by the name of the mark."""
    places: dict[str, list[str]] = {}
    for number, line in enumerate(source.splitlines(), start=1):
        if mark := _MARK.search(line):
            places.setdefault(mark.group(1), []).append(f"{path.name}:{number}")
    return places


def marked_lines(source: str) -> list[int]:
    """Where ``# BUG`` is."""
    lines = enumerate(source.splitlines(), start=1)
    return [number for number, line in lines if line.endswith("  # BUG")]


def marked_site(script: str) -> str:
    """For synthetic logs: the site of the guilty line of a script."""
    path = Path(script)
    return f"{path}:{marked_lines(path.read_text())[0]}"


def read(path: Path) -> Case:
    """The case in a file.

    Raises:
        ValueError: the header does not say what must be found, or says something unknown.

    """
    source = path.read_text()
    title, _, header = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
    found = _FIELD.findall(header.rpartition("\n\n")[2])
    fields = {name: " ".join(value.split()) for name, value in found}
    if not {"expect", "status"} <= fields.keys() <= _FIELDS:
        raise ValueError(f"{path}: the header must be made of {', '.join(sorted(_FIELDS))}")
    return Case(path, " ".join(title.split()), fields, source)


def collection() -> Iterator[Case]:
    """Every case, in order of name."""
    for path in sorted(HERE.glob("*/*.py")):
        yield read(path)
