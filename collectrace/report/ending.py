"""The end of the report: what every rank was doing, what the logs do not show, the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.text import Text

from collectrace import internal, words
from collectrace.findings import (
    KINDS,
    Alignment,
    Ended,
    Finding,
    RankState,
    State,
    cause_of,
    is_repeated,
)
from collectrace.ops import POINT_TO_POINT
from collectrace.report import text
from collectrace.report.layout import INDENT, SEPARATOR, Page
from collectrace.report.opening import STATUS_STYLE
from collectrace.report.tables import Grid

_MOST_STATES: Final = 8
_MOST_LINES: Final = 3
_MOST_RUNS: Final = 2
_MOST_GAPS: Final = 3

_LONGEST_DETAIL: Final = 200
"""Characters of an exception's text: the end of it is mostly advice, and the log has all of it."""

_TELLING: Final[tuple[State, ...]] = (
    "died", "raised", "silent", "missing", "busy", "blocked", "running", "unknown", "finished",
)  # fmt: skip
"""The states, the most informative first."""

_ENDED: Final[dict[Ended, str]] = {
    "exit": "",
    "signal": "killed by a signal",
    "gone": "killed before the log ended",
    "alive": "still alive",
    "unknown": "",
}


def show(page: Page, alignment: Alignment, findings: Sequence[int]) -> None:
    """Write what agrees, what the logs lack, and how to get more details.

    ``findings``: indices of the findings that are shown in full.
    """
    found = [alignment.findings[n] for n in findings]
    is_error = any(one.severity == "error" for one in found)
    if not is_error:
        page.prose(verdict(alignment), hang=INDENT)
    elif told := agreed(alignment, found[0]):
        page.prose(told, hang=INDENT)
    if sum(one.severity == "error" for one in found) > 1:
        page.prose(_summary(alignment), hang=INDENT)
    missing = [*(_unrecorded(alignment) if is_error else ()), *gaps(alignment, short=bool(found))]
    for gap in missing[:_MOST_GAPS]:
        page.prose(f"note: {gap}", hang=INDENT)
    if len(missing) > _MOST_GAPS:
        page.line(f"and {words.counted(len(missing) - _MOST_GAPS, 'more note')} (--verbose)")
    internal_errors(page, alignment)
    if alignment.evidence.other_runs:
        page.prose(run(alignment), hang=INDENT)
    if not found:
        return
    codes = dict.fromkeys(text.clean(one.code) for one in found if one.code)
    explained = [f"collectrace explain {' '.join(codes)}"] if codes else []
    more = "more: --verbose, --html report.html, --json -"
    page.prose(SEPARATOR.join([*explained, more]), hang=INDENT)


def agreed(alignment: Alignment, finding: Finding) -> str:
    """Return which calls before a finding agree, as a sentence; empty if none are known."""
    group = finding.group
    rows = finding.table.rows if finding.table is not None else ()
    first = next((row.seq for row in rows if row.mark), finding.seq)
    if group is None or first is None or first < 2 or not _is_row(alignment, finding):
        told, evidence = words.compared(alignment.evidence), alignment.evidence
        is_one = evidence.agreed + evidence.messages == 1
        return f"{told} {'agrees' if is_one else 'agree'}" if told else ""
    calls, agree = ("call 1", "agrees") if first == 2 else (f"calls 1-{first - 1}", "agree")
    absent = {*group.ranks} & {*alignment.evidence.missing_ranks}
    compared = f" on {words.ranks({*group.ranks} - absent)}" if absent else ""
    return f"{calls} of {text.whole_group(group)} {agree}{compared}"


def _is_row(alignment: Alignment, finding: Finding) -> bool:
    """Return whether all calls of the stream before the finding's call were compared."""
    return KINDS[finding.kind].family == "call" and not alignment.evidence.imported


def internal_errors(page: Page, alignment: Alignment) -> None:
    """Write each internal error of collectrace on one line, so that it can be copied."""
    for told in internal.sentences(alignment):
        page.line(Text(told, "yellow"))


def run(alignment: Alignment) -> str:
    """Return the run's name, and the names of other runs in the folder."""
    told = f"run {text.clean(alignment.run)}"
    others = [text.clean(run) for run in alignment.evidence.other_runs or ()]
    if not others:
        return told
    named = ", ".join(reversed(others[-_MOST_RUNS:])) + (", .." if len(others) > _MOST_RUNS else "")
    return f"{told}; {words.counted(len(others), 'other run')} in this folder (--run): {named}"


class Alike(NamedTuple):
    """Ranks that were doing the same when their logs end."""

    ranks: tuple[int, ...]
    state: State
    told: str
    """Their state and end, in words."""
    detail: str
    last: str
    """Their last call."""
    held: str
    """The longest time for which one of them had been doing it."""


def alike(alignment: Alignment) -> list[Alike]:
    """Return what every rank was doing, the most informative state first."""
    found: dict[tuple[str, ...], list[RankState]] = {}
    for rank in alignment.ranks:
        state, detail, last = rank_told(alignment, rank)
        found.setdefault((rank.state, state, text.NUMBER.sub("#", detail), last), []).append(rank)
    rows = []
    for those in sorted(found.values(), key=lambda one: _TELLING.index(one[0].state)):
        state, detail, last = rank_told(alignment, those[0])
        if any(rank_told(alignment, other)[1] != detail for other in those):
            detail += f" (rank {those[0].rank}; the others likewise)"
        held = max((r.held or 0.0 for r in those if r.state != "finished"), default=0.0)
        lasted = words.seconds(held * 1e9) if held else ""
        ranks = tuple(rank.rank for rank in those)
        rows.append(Alike(ranks, those[0].state, state, detail, last, lasted))
    return rows


def states(alignment: Alignment) -> Grid:
    """Return what every rank was doing, as a table."""
    found = alike(alignment)
    rest = [rank for one in found[_MOST_STATES:] for rank in one.ranks]
    rows = (
        (words.ranges(one.ranks), one.told, "\n".join(filter(None, (one.detail, one.last))))
        for one in found[:_MOST_STATES]
    )
    left = f"{words.ranks(rest)}: in --json" if rest else ""
    return Grid("", ("ranks", "", ""), tuple(rows), rest=left)


def rank_told(alignment: Alignment, rank: RankState) -> tuple[str, str, str]:
    """Return three texts about a rank: its state and end, details, its last call."""
    # Logs of other tools do not record how a process ended.
    is_silent = rank.state == "missing" or alignment.evidence.imported
    ended = "" if is_silent else _ENDED[rank.ended]
    ended = f"then {ended}" if rank.ended == "signal" and ended else ended
    detail = " ".join(text.clean(rank.detail).split())
    detail = "" if detail == text.STATES[rank.state] else detail
    if len(detail) > _LONGEST_DETAIL:
        detail = detail[: _LONGEST_DETAIL - 2] + ".."
    last, c = "", rank.last_call
    if c is not None and rank.state != "finished":
        group = text.named_group(c.group)
        of = "" if group == words.DEFAULT_GROUP else f" of {group}"
        numbered = "message" if c.op in POINT_TO_POINT else "call"
        is_told = f"{c.op}{words.at(c)}" in rank.detail and f"({numbered} {c.seq}" in rank.detail
        if not is_told:
            last = f"last call: {text.clean(c.op)}{text.at(c)}, {numbered} {c.seq}{of}"
    return ", ".join(part for part in (text.STATES[rank.state], ended) if part), detail, last


def gaps(alignment: Alignment, *, short: bool = False) -> list[str]:
    """Return what the logs do not show, in sentences; ``short``: without advice."""
    evidence = alignment.evidence
    found = []
    told = [_gap(f, short=short) for f in alignment.findings if f.kind == "evidence_gap"]
    if evidence.missing_ranks and not told:
        found.append(f"{words.ranks(evidence.missing_ranks)} left no log.")
    if evidence.dropped:
        found.append(f"{words.counted(evidence.dropped, 'record')} could not be written.")
    found += [text.clean(note) for note in evidence.notes]
    return found + told


def _gap(finding: Finding, *, short: bool) -> str:
    parts = (finding.headline, "" if short else finding.fix)
    sentences = (text.clean(part).rstrip(".") for part in parts if part)
    return ". ".join(sentences) + "."


def verdict(alignment: Alignment) -> Text:
    """Return the status, what it does not cover, a summary, and the exit status."""
    # The calls may agree ("aligned") although the job crashed for another reason.
    is_aligned = alignment.status == "aligned"
    said = "aligned" if is_aligned else alignment.outcome
    status = (said, f"bold {STATUS_STYLE[said]}")
    but = ", but the job crashed" if is_aligned and alignment.outcome == "crashed" else ""
    counts = " Warnings count." if alignment.strict and alignment.warnings else ""
    end = f"{counts} Exit status {alignment.exit_status}."
    return Text.assemble(status, but, _limits(alignment), ": ", _summary(alignment), end)


def _limits(alignment: Alignment) -> str:
    """Return what the verdict does not cover."""
    spots = alignment.evidence.blind_spots
    if not spots:
        return ""
    goes = ", as far as torch.distributed goes" if alignment.exit_status != 1 else ""
    return goes + "".join(f"; {one}" for one in _unrecorded(alignment))


def _unrecorded(alignment: Alignment) -> list[str]:
    """Return a sentence for each library that communicated without being recorded."""
    spots = alignment.evidence.blind_spots or ()
    return [
        text.clean(f"{s.name} {s.how} on {words.ranks(s.ranks)} and is not recorded") for s in spots
    ]


def _summary(alignment: Alignment) -> str:
    world = words.counted(alignment.world_size, "rank")
    if alignment.status == "aligned":
        agreed = words.compared(alignment.evidence)
        return f"{agreed} on {world} agree{_lines(alignment)}." if agreed else f"{world} agree."
    if alignment.status == "unknown":
        alive = sum(rank.ended == "alive" for rank in alignment.ranks)
        if alive and not alignment.evidence.missing_ranks:
            calls = words.compared(alignment.evidence) or words.counted(0, "collective")
            return f"{alive} of {world} run; so far all agree ({calls})."
        died = [rank.rank for rank in alignment.ranks if rank.state == "died"]
        if died:
            return f"{words.ranks(died)} died, and no call shows why. Look {words.AT_ITS_END}."
        waiting = [rank.rank for rank in alignment.ranks if rank.state == "blocked"]
        missing = alignment.evidence.missing_ranks
        if waiting and missing:
            files = "the file" if len(missing) == 1 else "the files"
            return (
                f"{words.ranks(waiting)} {words.verb(waiting, 'waits', 'wait')}, and without "
                f"{files} of {words.ranks(missing)} it cannot be said why{_killed(alignment)}."
            )
        crashed = any(finding.kind == "raised" for finding in alignment.findings)
        found = "the job crashed, and" if crashed else "nothing wrong found, but"
        return (
            f"{found} the logs of {world} cannot show that all {'else ' * crashed}is well"
            f"{_killed(alignment)}."
        )
    findings = alignment.findings
    errors = [
        n for n, f in enumerate(findings) if f.severity == "error" and not is_repeated(findings, n)
    ]
    effects = sum(cause_of(findings, n) is not None for n in errors)
    causes = len(errors) - effects
    also = f", {words.counted(effects, 'consequence')}" if effects else ""
    first = " Start with the first: others may go with it." if causes > 1 else ""
    return f"{words.counted(causes, 'error')}{also} on {world}.{first}"


def _killed(alignment: Alignment) -> str:
    """Return in parentheses which ranks were killed; empty if none were."""
    known = [] if alignment.evidence.imported else [
        rank for rank in alignment.ranks if rank.state != "missing"
    ]  # fmt: skip
    ends = [
        (words.ranks([r.rank for r in known if r.ended == end]), _ENDED[end])
        for end in ("signal", "gone")
        if any(r.ended == end for r in known)
    ]
    told = "; ".join(f"{who}: {how}" for who, how in ends)
    return f" ({told})" if told else ""


def _lines(alignment: Alignment) -> str:
    """Return how many agreeing calls come from different lines, with the first group's example."""
    if not alignment.evidence.other_lines:
        return ""
    other = alignment.evidence.other_lines[0]
    places = words.listed(
        [
            f"{text.short_site(line.site)} on {words.ranks(line.ranks)}"
            for line in other.lines[:_MOST_LINES]
        ]
    )
    return f", {other.count} of them from different lines (first call {other.seq}: {places})"
