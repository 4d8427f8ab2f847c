"""Judge the case collection, live or recorded, and print how well collectrace does.

    python tools/scoreboard.py                     # per case: expected and found; then the scores
    python tools/scoreboard.py --only matching/    # cases whose name matches a pattern
    python tools/scoreboard.py --corpus            # the runs that are recorded, in half a minute
    python tools/scoreboard.py --rivals            # beside what torch's own tools say of the same
    python tools/scoreboard.py --words             # what is said, where it is not what is true
    python tools/scoreboard.py --markdown          # the table of the docs

A case is a script with a mistake, or one that must not be flagged; most have a twin in which the
mistake is put right, and in which nothing may be found. tests/zoo/case.py says what a header
holds, tests/zoo/rivals.py how torch's own tools are judged.

recall      errors found, of the runs that have one
precision   of the runs in which an error was found, those that have one
kind, rank, line   right, of the runs in which something must be found
cause, fix  say what is true of the script, as its header has it, and claim nothing that is not
noise       errors that are neither the one that counts nor its consequence, per run
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from collectrace.align import align
from tests.support import flight_cases
from tests.support.flight_cases import FlightCase
from tests.zoo import corpus, rivals
from tests.zoo.case import Case, collection
from tests.zoo.protocol import Mode
from tests.zoo.runner import Server
from tests.zoo.verdict import Verdict, check, recorded

CLASSES: Final = {
    "matching": "wrong matching",
    "join": "join() and uneven inputs",
    "ddp": "DDP and friends",
    "sharded": "FSDP, DTensor, pipelining, checkpoints",
    "p2p": "point to point",
    "groups": "across groups",
    "loops": "rounds, steps and moments",
    "threads": "several threads",
    "stopped": "ranks that stop",
    "healthy": "must not be flagged",
}
RIVALS: Final[dict[str, Mode]] = {"DETAIL": "detail", "Flight Recorder": "recorder"}


@dataclass
class Row:
    """One run of a case, or of its twin."""

    case: Case
    twin: bool
    verdict: Verdict
    said: dict[str, rivals.Said] = field(default_factory=dict)
    """By rival; a case whose logs are made up has none."""

    @property
    def name(self) -> str:
        return self.case.name + (" (twin)" if self.twin else "")

    @property
    def has_error(self) -> bool:
        return self.verdict.expects_error

    @property
    def must_find(self) -> bool:
        """Something must be found, if only a warning."""
        return bool(self.case.expect) and not self.twin

    @property
    def expected(self) -> str:
        if not self.must_find:
            return "nothing"
        whom = ",".join(map(str, self.case.suspects)) or "nobody"
        return f"{' or '.join(self.case.expect)}, blame {whom}"

    @property
    def problems(self) -> list[str]:
        """What is wrong with the answer and with its words."""
        verdict = self.verdict
        return verdict.problems + verdict.cause_problems + verdict.fix_problems

    @property
    def found(self) -> str:
        finding = self.verdict.finding
        if finding is None:
            return "nothing"
        return f"{finding.kind}, blame {','.join(map(str, finding.suspects)) or 'nobody'}"


def measure(cases: Sequence[Case], jobs: int, *, with_rivals: bool) -> list[Row]:
    """Run every case and every twin, several at a time."""
    runs = [(case, twin) for case in cases for twin in (False, True) if case.has_twin or not twin]
    with (
        tempfile.TemporaryDirectory(prefix="scoreboard-") as folder,
        Server() as server,
        ThreadPoolExecutor(jobs) as pool,
    ):
        base = Path(folder)
        verdicts = [
            pool.submit(check, server, case, twin=twin, folder=base / "ours" / str(n))
            for n, (case, twin) in enumerate(runs)
        ]
        said: dict[int, dict[str, Future[rivals.Said]]] = {}
        for n, (case, twin) in enumerate(runs):
            if with_rivals and not case.synthetic:
                said[n] = {
                    name: pool.submit(
                        rivals.hear, server, case, mode, twin=twin, folder=base / mode / str(n)
                    )
                    for name, mode in RIVALS.items()
                }
        rows = []
        for n, ((case, twin), verdict) in enumerate(zip(runs, verdicts, strict=True)):
            heard = {name: one.result() for name, one in said.get(n, {}).items()}
            rows.append(Row(case, twin, verdict.result(), heard))
            _progress(len(rows), len(runs))
        return rows


def recall(cases: Sequence[Case]) -> list[Row]:
    """Judge the recording of every case and every twin.

    Raises:
        KeyError: one is not recorded.

    """
    entries, names = corpus.index(), {case.name for case in cases}
    runs = [run for run in corpus.runs() if run.case.name in names]
    rows = []
    for run in runs:
        rows.append(Row(run.case, run.twin, recorded(run, entries[run.name])))
        _progress(len(rows), len(runs))
    return rows


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {of} runs", end="" if done < of else "\n", file=sys.stderr)


# -- every case ------------------------------------------------------------------------------


def lines(rows: Iterable[Row], *, with_words: bool = False) -> Iterator[str]:
    """Per run: what was expected, and what was found."""
    for row in rows:
        problems = row.problems
        yield f"{'WRONG' if problems else 'ok':<6}{row.name:<52}{row.expected}"
        if problems or row.found != row.expected:
            yield f"{'':<58}found {row.found}"
        yield from (f"{'':<58}{problem}" for problem in problems)
        if problems and with_words:
            yield from _words(row)
        for name, said in row.said.items():
            ranks = ",".join(map(str, sorted(said.ranks))) or "nobody"
            word = f"speaks up, names {ranks}" if said.spoke else "says nothing"
            yield f"{'':<58}{name}: {'fails' if said.broke else word}"


def _words(row: Row) -> Iterator[str]:
    """What every finding says that is no consequence."""
    findings = row.verdict.alignment.findings
    for finding in (finding for finding in findings if finding.caused_by is None):
        told = finding.headline, finding.cause, *finding.notes, *finding.fix.splitlines()
        yield from (f"{'':<10}{text}" for text in told)


# -- the same dumps into both ------------------------------------------------------------------


@dataclass(frozen=True)
class DumpRow:
    """What collectrace and torchfrtrace made of one folder of Flight Recorder dumps."""

    case: FlightCase
    found: bool
    """collectrace reports an error."""
    right: bool
    """Its kind and the ranks that it blames are right; of a healthy job: it reports none."""
    rival: rivals.Said

    @property
    def rival_right(self) -> bool:
        """Whether torchfrtrace speaks up and names the right ranks, or no rank where none is."""
        if self.rival.broke:
            return False
        if not self.case.kinds:
            return not self.rival.spoke
        if not self.rival.spoke:
            return False
        return not self.case.suspects or self.rival.ranks == set(self.case.suspects)


def dump_rows() -> Iterator[DumpRow]:
    """Every case of tests/support/flight_cases.py."""
    with tempfile.TemporaryDirectory(prefix="dumps-") as where:
        for n, case in enumerate(flight_cases.CASES):
            folder = case.build().write(Path(where) / str(n), without=case.without)
            errors = [f for f in align(folder).findings if f.severity == "error"]
            blames = case.suspects is None or (bool(errors) and errors[0].suspects == case.suspects)
            right = bool(errors) and errors[0].kind in case.kinds and blames
            yield DumpRow(
                case, bool(errors), right if case.kinds else not errors,
                rivals.torchfrtrace(folder),
            )  # fmt: skip


def dump_table(rows: Sequence[DumpRow]) -> Iterator[str]:
    """Markdown: the same dumps into both, row by row."""
    yield from _row(["Flight Recorder dumps", "collectrace", "torchfrtrace"])
    yield from _row(["---", "---", "---"])
    for row in rows:
        mine = "right" if row.right else "WRONG"
        if row.rival.broke:
            theirs_ = "fails"
        elif row.rival_right:
            theirs_ = "right"
        else:
            said = ",".join(map(str, sorted(row.rival.ranks))) or "nobody"
            theirs_ = f"blames {said}" if row.rival.spoke else "says nothing"
        yield from _row([row.case.name, mine, theirs_])
    yield from _row(
        ["**right**", score(sum(r.right for r in rows), len(rows)),
         score(sum(r.rival_right for r in rows), len(rows))]
    )  # fmt: skip


# -- scores ----------------------------------------------------------------------------------


def score(good: int, of: int) -> str:
    return f"{good}/{of}" if of else ""


def ratio(good: int, of: int) -> str:
    return f"{good / of:.2f}" if of else "-"


def ours(rows: Sequence[Row]) -> list[str]:
    """Found, and what of it is right, of the runs in which an error must be found."""
    verdicts = [row.verdict for row in rows if row.has_error]
    tests: Sequence[Callable[[Verdict], bool]] = (
        lambda v: bool(v.errors), lambda v: v.right_kind, lambda v: v.right_rank,
        lambda v: v.right_line, lambda v: v.right_cause, lambda v: v.right_fix,
    )  # fmt: skip
    return [score(sum(map(test, verdicts)), len(verdicts)) for test in tests]


def theirs(rows: Sequence[Row], rival: str) -> list[str]:
    """Found and right rank."""
    heard = [(row, row.said[rival]) for row in rows if row.has_error and rival in row.said]
    found = [(row, said) for row, said in heard if said.spoke]
    right = [row for row, said in found if said.is_right(row.case)]
    return [score(len(found), len(heard)), score(len(right), len(heard))]


def table(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Markdown: per class what was found, beside the rivals; then false alarms and totals."""
    yield from _row(
        ["runs with an error", "found", "kind", "rank", "line", "cause", "fix"]
        + [f"{name}: {what}" for name in names for what in ("found", "rank")]
    )
    yield from _row(["---"] + ["--:"] * (6 + 2 * len(names)))
    groups = [[row for row in rows if row.name.startswith(f"{key}/")] for key in CLASSES]
    for title, those in [*zip(CLASSES.values(), groups, strict=True), ("**all**", rows)]:
        cells = ours(those) + [cell for name in names for cell in theirs(those, name)]
        if any(row.has_error for row in those):
            yield from _row([title, *cells])
    yield ""
    yield from _row(["", "collectrace", *names])
    yield from _row(["---"] + ["--:"] * (1 + len(names)))
    for title, cells in totals(rows, names):
        yield from _row([title, *cells])


def totals(rows: Sequence[Row], names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Recall, precision and noise over all runs; a cell for collectrace and one per rival."""
    wrong = [row for row in rows if row.has_error]
    right = [row for row in rows if not row.has_error]
    alarms = sum(bool(row.verdict.errors) for row in right)
    hits = sum(bool(row.verdict.errors) for row in wrong)
    heard = {name: [(row, row.said[name]) for row in rows if name in row.said] for name in names}
    false = {n: sum(s.spoke for r, s in those if not r.has_error) for n, those in heard.items()}
    true = {n: sum(s.spoke for r, s in those if r.has_error) for n, those in heard.items()}
    yield (
        "recall",
        [ratio(hits, len(wrong))]
        + [ratio(true[n], sum(r.has_error for r, _ in heard[n])) for n in names],
    )
    yield (
        "precision",
        [ratio(hits, hits + alarms)] + [ratio(true[n], true[n] + false[n]) for n in names],
    )
    yield (
        "false alarms in correct runs",
        [score(alarms, len(right))]
        + [score(false[n], sum(not r.has_error for r, _ in heard[n])) for n in names],
    )
    if names:
        yield (
            "the tool itself failed",
            [score(0, len(rows))]
            + [score(sum(s.broke for _, s in heard[n]), len(heard[n])) for n in names],
        )
    asked = [row.verdict for row in rows if row.must_find and not row.has_error]
    yield "warnings asked for and given", [
        score(sum(v.right_kind for v in asked), len(asked)), *["" for _ in names]
    ]  # fmt: skip
    noise = sum(row.verdict.noise for row in rows)
    yield "noise per run", [f"{noise / len(rows):.2f}", *["" for _ in names]]


def _row(cells: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="PATTERN", default="", help="regular expression")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--corpus", action="store_true", help="judge recorded runs; run nothing")
    source.add_argument("--rivals", action="store_true", help="run torch's own tools as well")
    parser.add_argument("--words", action="store_true", help="what is said, where it is wrong")
    parser.add_argument("--markdown", action="store_true", help="the table alone")
    parser.add_argument("--jobs", type=int, default=8, help="cases at a time; most only wait")
    options = parser.parse_args(argv)
    cases = [case for case in collection() if re.search(options.only, case.name)]
    if not cases:
        parser.error(f"no case matches {options.only!r}")
    rows = (
        recall(cases)
        if options.corpus
        else measure(cases, options.jobs, with_rivals=options.rivals)
    )
    if not options.markdown:
        print(*lines(rows, with_words=options.words), "", sep="\n")
    print(*table(rows, list(RIVALS) if options.rivals else []), sep="\n")
    dumps = list(dump_rows()) if options.rivals else []
    if dumps:
        print("", *dump_table(dumps), sep="\n")
    return int(any(row.problems for row in rows) or not all(row.right for row in dumps))


if __name__ == "__main__":
    sys.exit(main())
