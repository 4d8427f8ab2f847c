"""Whether an answer about a harmed log is right: what may be said, by what is left of the log.

What has become of a log is told by its lines, not by the edits that made it, so that it holds for
any number of them. Lines that are gone or cannot be read (``lost``) prove nothing: no rank may be
blamed for them. A changed line of a collective is contradicted by its digest, and counts as lost.
Of all other changed lines nothing shows that they are not the truth (``told``): of messages, of
process groups, of how a rank ended. For what they say, the ranks that they are about may be blamed.
So may a rank whose file ends behind a whole line, before its end: it was killed then, by its log.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser
from typing import Any, Final, Literal

from markdown_it import MarkdownIt

from collectrace.align.causes import registry
from collectrace.findings import KINDS, Alignment, Finding
from collectrace.records import Call, Group, Record, readable
from collectrace.signature import program_text, wire_text
from tools.fuzz_parts.log import Log, lines_of, rank_of
from tools.fuzz_parts.samples import Files

Class = Literal["same", "as told", "gap", "unknown", "failure"]
"""``same``: the verdict of the log before it was harmed. ``as told``: another one, for a line says
so that nothing contradicts. ``gap``: another one, and it says what is missing. ``unknown``: no
verdict."""


@dataclass(frozen=True)
class Answer:
    """What is said of a log."""

    alignment: Alignment | None
    """None: it was refused, as logs that cannot be used are."""
    reports: Mapping[str, str] = field(default_factory=dict)

    @property
    def errors(self) -> list[Finding]:
        """What is wrong with the run, its consequences left out."""
        found = self.alignment.findings if self.alignment is not None else ()
        return [f for f in found if f.severity == "error" and f.caused_by is None]

    @property
    def verdict(self) -> tuple[Any, ...]:
        """What two answers have in common that say the same."""
        status = self.alignment.status if self.alignment is not None else "unknown"
        return status, *((f.kind, f.suspects) for f in self.errors[:1])

    @property
    def gaps(self) -> set[str]:
        """Everything by which it says that evidence is missing."""
        if self.alignment is None:
            return {"refused"}
        found = self.alignment.evidence
        counted = (f"{found.damaged_lines} damaged", f"missing {found.missing_ranks}")
        told = (f.headline for f in self.alignment.findings if f.kind == "evidence_gap")
        states = (f"{r.rank} {r.state}" for r in self.alignment.ranks if r.state == "unknown")
        notes = (note for finding in self.errors for note in finding.notes)
        return {*counted, *found.notes, *told, *states, *notes}


# -- what has become of a log ------------------------------------------------------------------


@dataclass
class Harm:
    """What is no longer in a log as it was, by rank."""

    lost: set[int] = field(default_factory=set)
    told: set[int] = field(default_factory=set)
    """Ranks that changed lines are about, which nothing contradicts."""
    killed: set[int] = field(default_factory=set)
    forged: set[int] = field(default_factory=set)
    unnumbered: set[int] = field(default_factory=set)
    """Ranks that lost lines which are no calls: nothing shows that there were any."""
    is_open: bool = False
    """Nothing may show that all is well: calls are gone that no later digest covers, or a file."""


def harm(before: Files, log: Log) -> Harm:
    """Return what has become of a log."""
    found = Harm()
    for rank, forged in log.forged.items():
        if any(not forged.isdisjoint(lines_of(data)) for data in _of(log.files, rank).values()):
            found.forged.add(rank)
    for rank in sorted({r for p in (*before, *log.files) if (r := rank_of(p)) is not None}):
        _of_rank(found, rank, _of(before, rank), _of(log.files, rank))
    beside = {p for p in {*before, *log.files} if rank_of(p) is None}
    if any(before.get(path) != log.files.get(path) for path in beside):
        found.told |= {r for p in before if (r := rank_of(p)) is not None and _beside(p, beside)}
    return found


def _beside(path: str, others: Collection[str]) -> bool:
    """Whether stacks or last words of a rank's process are among these files."""
    stem = path.removesuffix(".jsonl")
    return any(other.startswith(stem) for other in others)


def _of(files: Files, rank: int) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if rank_of(path) == rank}


def _of_rank(found: Harm, rank: int, old: Mapping[str, bytes], new: Mapping[str, bytes]) -> None:
    if old == new:
        return
    if not all(path.endswith(".jsonl") for path in (*old, *new)):
        found.told.add(rank)  # no digests
        found.lost.add(rank)
        return
    had = Counter(line for data in old.values() for line in lines_of(data))
    has = Counter(line for data in new.values() for line in lines_of(data))
    gone, come = [*(had - has)], [record for line in has - had if (record := readable(line))]
    lost = [record for line in gone if (record := readable(line)) is not None]
    if gone:
        found.lost.add(rank)
    calls = _calls(frozenset(had)) if come else {}
    for record in come:
        if not isinstance(record, Call) or _is_told(record, calls):
            found.told |= {rank} | _others_of(record)
    if any(not isinstance(record, Call) for record in lost):
        found.unnumbered.add(rank)
    if _ends_before(old, new):
        found.killed.add(rank)
    found.is_open |= (bool(old) and not any(new.values())) or any(
        isinstance(record, Call) and record.digest is None for record in lost
    )


@lru_cache(maxsize=1000)
def _calls(lines: frozenset[bytes]) -> dict[tuple[Any, ...], Call]:
    """Return the collectives among lines, by their place."""
    found = (record for line in lines if isinstance(record := readable(line), Call))
    return {(r.group, r.device, r.seq): r for r in found if r.digest is not None}


def _is_told(call: Call, before: Mapping[tuple[Any, ...], Call]) -> bool:
    """Whether no digest contradicts a line: a message, of another stream, or it says the same."""
    if call.digest is None:
        return True
    old = before.get((call.group, call.device, call.seq))
    if old is None:  # only the digests of the calls beside it can contradict it
        beside = ((call.group, call.device, call.seq + n) for n in (-1, 1))
        return not any(place in before for place in beside)
    texts = [(wire_text(one, ""), program_text(one), one.void) for one in (old, call)]
    return texts[0] == texts[1] and old.digest == call.digest


def _ends_before(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> bool:
    """Whether a rank's log looks as if its process had ended before it did: its end is gone."""
    had, has = ([d for _, d in sorted(files.items()) if d] for files in (old, new))
    if not had or not has or not has[-1].endswith(b"\n"):
        return False
    last = lines_of(has[-1])
    return lines_of(had[-1])[-1] not in last and readable(last[-1]) is not None


def _others_of(record: Record) -> set[int]:
    """Return the ranks that a record names; of a process group, all its members."""
    named: list[Any] = [getattr(record, key, None) for key in ("peer", "rank", "source")]
    named += record.ranks if isinstance(record, Group) else []
    return {rank for rank in named if isinstance(rank, int) and rank >= 0}


# -- what is wrong with an answer --------------------------------------------------------------


def failure(base: Answer, guilty: frozenset[int], done: Harm, answer: Answer) -> str | None:
    """Return what is wrong with an answer; None: nothing is."""
    found = answer.alignment
    if found is not None and found.internal_errors:
        fault = found.internal_errors[0]
        return f"internal error: {fault.error} at {fault.site}"
    for name, text in answer.reports.items():
        if (problem := _shown(name, text)) is not None:
            return f"shown as it stands: {problem} in {name}"
    if found is None:
        return None
    if found.status == "aligned" and (over := _over(base, done, answer)) is not None:
        return f"aligned: over {over}"
    known = {rank for finding in base.errors for rank in finding.suspects} | guilty
    if 2 * len(done.forged | done.told) > len(found.ranks):
        # Most ranks say something else now, and may outvote those that were left.
        known |= {rank.rank for rank in found.ranks}
    blamed = {rank for finding in answer.errors for rank in finding.suspects}
    wrong = blamed - known - done.told - done.killed - done.forged
    if wrong:
        return f"blame: rank {sorted(wrong)} by {answer.errors[0].kind} {answer.errors[0].code}"
    if not base.errors and answer.errors and not (done.told or done.forged or done.killed):
        return f"error: {answer.errors[0].kind} {answer.errors[0].code} in a healthy run"
    if not (done.told or done.forged or done.killed) and (other := _other_cause(base, answer)):
        return f"cause: {other}"
    if kind(base, done, answer, guilty) == "failure":
        return f"changed: {base.verdict} to {answer.verdict}, without a word"
    return None


def _other_cause(base: Answer, answer: Answer) -> str:
    """Return a cause that lost lines cannot have shown; empty if there is none.

    What is left may show less: then a cause applies that the right one takes precedence over.
    """
    if not base.errors or not answer.errors or base.errors[0].kind != answer.errors[0].kind:
        return ""
    right, code = base.errors[0].code or "", answer.errors[0].code or ""
    todo, seen = [code], set[str]()
    while todo:
        one = todo.pop()
        seen.add(one)
        if one in registry.BY_CODE:
            todo += {*registry.winners(registry.BY_CODE[one])} - seen
    is_weaker = right in seen or (right, code) in _ALIKE
    return "" if is_weaker else f"{right} to {code}"


_ALIKE: Final = {("CT703", "CT701")}
"""Causes of which either may be told: of a message that was never made before, in a cycle of waits
with a collective, one tells where the rank left its usual calls, the other what it never did."""


def _over(base: Answer, done: Harm, answer: Answer) -> str | None:
    """Return what forbids to call the ranks aligned; None: nothing does."""
    if base.errors and not done.told:
        is_noticed = done.unnumbered or answer.gaps - base.gaps
        if not (is_noticed and _rests_on_time(base)):
            return "an error"
    if done.forged and not done.lost - done.forged:
        return "another call"
    if done.is_open and not done.told and base.verdict[0] == "aligned":
        return "lost lines"
    return None


def _rests_on_time(base: Answer) -> bool:
    """Whether an error is known by other lines than those of calls."""
    return KINDS[base.errors[0].kind].family == "together"


def kind(base: Answer, done: Harm, answer: Answer, guilty: frozenset[int] = frozenset()) -> Class:
    """Return what kind of answer it is, but for failures that are not told by the verdict."""
    right = base.verdict[0], *((f.kind, tuple(sorted(guilty))) for f in base.errors[:1])
    if answer.verdict in (base.verdict, right):
        return "same"
    if answer.verdict[0] == "unknown":
        return "unknown"
    is_unseen = done.unnumbered and base.errors and _rests_on_time(base)
    if done.told or done.forged or done.killed or is_unseen:
        return "as told"
    if base.errors and answer.verdict == (base.verdict[0], (base.errors[0].kind, ())):
        return "gap"  # nobody is blamed any more
    return "gap" if answer.gaps - base.gaps else "failure"


# -- what reports show -------------------------------------------------------------------------

_HIDDEN: Final = frozenset({"Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_TURNS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_MARKDOWN: Final = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_TAGS: Final = {
    "h3", "p", "strong", "code", "ul", "ol", "li", "details", "summary", "pre", "br",
    "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
"""What reports write themselves."""


def _shown(name: str, text: str) -> str | None:
    """Return what of a log a report lets through to a terminal or a browser."""
    if name in ("terminal", "brief", "verbose", "markdown"):
        odd = {c for c in set(text) - {"\n"} if unicodedata.category(c) in _HIDDEN or c in _TURNS}
        if odd:
            return f"{min(odd)!r}"
    if name == "markdown":
        parser = _Tags()
        parser.feed(_MARKDOWN.render(text))
        return min(parser.found, default=None)
    if name == "page" and ("<img src=x" in text or "<script>alert" in text):
        return "markup"
    return None


class _Tags(HTMLParser):
    """Collects tags that no report writes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS or (attrs and tag not in ("th", "td")):
            self.found.append(f"<{tag}>")
