"""What the aligner says about a run of a case, against what the case's header says.

with Server() as server:
    verdict = check(server, case, twin=False, folder=tmp)
    verdict.problems            # empty: the right finding, about the right ranks and line
    verdict.cause_problems      # empty: and its cause is what is true of the script
    verdict.fix_problems        # empty: and so is its advice
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from collectrace.align import align
from collectrace.findings import Alignment, Finding, Side
from tests.zoo import corpus
from tests.zoo.case import Case
from tests.zoo.corpus import Entry, Run
from tests.zoo.runner import Outcome, Server


@dataclass(frozen=True)
class Verdict:
    """One run, judged."""

    case: Case
    twin: bool
    outcome: Outcome
    alignment: Alignment

    @property
    def expects_error(self) -> bool:
        """Whether a tool has to speak up."""
        return self.case.is_error and not self.twin

    @property
    def errors(self) -> list[Finding]:
        """What was found, consequences left out."""
        findings = self.alignment.findings
        return [f for f in findings if f.severity == "error" and f.caused_by is None]

    @property
    def warnings(self) -> list[Finding]:
        """What is warned of, but for logs that are known to be gone."""
        warned = [f for f in self.alignment.findings if f.severity == "warning"]
        return [f for f in warned if f.kind != "evidence_gap" or not self.case.lost_logs]

    @property
    def finding(self) -> Finding | None:
        """The one that counts: the first error, or the warning or information that is asked for."""
        if self.errors or self.twin or not self.case.expect or self.case.is_error:
            return self.errors[0] if self.errors else None
        asked = (f for f in self.alignment.findings if f.severity == self.case.severity)
        return next((f for f in asked if f.kind in self.case.expect), None)

    @property
    def right_kind(self) -> bool:
        """Whether the first finding is of the right kind, and nothing is found in a twin."""
        if self.twin or not self.case.expect:
            return self.finding is None
        return self.finding is not None and self.finding.kind in self.case.expect

    @property
    def right_status(self) -> bool:
        return self.alignment.status in self.case.status(self.twin)

    @property
    def right_rank(self) -> bool:
        """Whether exactly the guilty ranks are blamed."""
        return self.finding is not None and set(self.finding.suspects) == set(self.case.suspects)

    @property
    def right_line(self) -> bool:
        """Whether the guilty line is named, on the side of a guilty rank where it has one."""
        if self.finding is None:
            return False
        return any(site.endswith(self.case.guilty) for site in _sites(self.finding))

    @cached_property
    def cause_problems(self) -> list[str]:
        """What the words about the cause leave out, and what is claimed that is not so."""
        if self.twin:
            return []
        wrong = []
        if self.case.expect:
            missing = self.case.cause.missing_in(_told(self.finding) if self.finding else "")
            wrong += [f"the cause does not mention {part}" for part in missing]
        told = [_told(finding) for finding in self.alignment.findings]
        told += [f"rank {r.rank}: {r.state}, {r.detail}" for r in self.alignment.ranks]
        told += self.alignment.evidence.notes
        return wrong + [f"must not be claimed: {part}" for part in self._claimed_in(told)]

    @cached_property
    def fix_problems(self) -> list[str]:
        """What the advice leaves out, and what it must not advise."""
        if self.twin:
            return []
        wrong = []
        if self.case.expect:
            missing = self.case.fix.missing_in(self.finding.fix if self.finding else "")
            wrong += [f"the fix does not mention {part}" for part in missing]
        advised = [finding.fix for finding in self.alignment.findings]
        return wrong + [f"must not be advised: {part}" for part in self._claimed_in(advised)]

    def _claimed_in(self, texts: Iterable[str]) -> list[str]:
        return sorted({part for text in texts for part in self.case.never.found_in(text)})

    @property
    def right_cause(self) -> bool:
        """Whether the cause says what is true, and nothing that is not."""
        return not self.cause_problems

    @property
    def right_fix(self) -> bool:
        """Whether the advice helps, and none leads astray."""
        return not self.fix_problems

    @property
    def noise(self) -> int:
        """Errors beside the one that counts."""
        return len(self.errors) - (self.expects_error and bool(self.errors))

    @property
    def problems(self) -> list[str]:
        """What is wrong with kind, ranks, line or status, each in a line; words left aside."""
        found = self.finding
        wrong = []
        if not self.right_kind:
            expected = "nothing" if self.twin else self.case.expect or "nothing"
            wrong.append(f"expected {expected}, found {found.headline if found else 'nothing'}")
        if not self.right_status:
            status = self.case.status(self.twin)
            wrong.append(f"expected status {status}, found {self.alignment.status}")
        if self.noise:
            wrong += [f"noise: {f.headline}" for f in self.errors[self.expects_error :]]
        if self.twin or not self.case.expect:
            return wrong + [f"warned: {warning.headline}" for warning in self.warnings]
        if not self.right_rank:
            blamed = found.suspects if found else "nobody"
            wrong.append(f"expected suspects {self.case.suspects}, found {blamed}")
        if self.case.guilty and not self.right_line:
            named = sorted(set(_sites(found))) if found else "nothing"
            wrong.append(f"expected the line {self.case.guilty}, found {named}")
        return wrong


def _told(finding: Finding) -> str:
    """Everything that a finding says but for its advice, and the lines that its excerpt shows.

    A line that stands there because others do says nothing.
    """
    shown = (
        f"{excerpt.path}:{line.line} {line.text} {' '.join(line.notes)}"
        for excerpt in finding.excerpt or ()
        for line in excerpt.lines
        if line.notes or line.what not in ("between", "loop")
    )
    callers = (one for excerpt in finding.excerpt or () for one in excerpt.callers or ())
    decided = (f"{one.site} {one.text}" for one in finding.decisions or ())
    return " ".join((finding.headline, finding.cause, *finding.notes, *shown, *callers, *decided))


def _sites(finding: Finding) -> Iterator[str]:
    """Where the finding points: at the calls of those it blames, or of all; and in its words.

    At those who called the functions of these calls, too, as far as it names them.
    """
    with_call = [side for side in finding.sides if side.call is not None]
    shown = {line.site for line in finding.sources}
    for side in [side for side in with_call if _is_guilty(side, finding)] or with_call:
        if side.call is not None and side.call.site is not None:
            yield side.call.site
        callers = (frame.partition(" ")[0] for frame in side.stack or ())
        yield from (site for site in callers if site in shown)
    yield from (word.strip(".,;:()`") for word in _told(finding).split() if ".py:" in word)


def _is_guilty(side: Side, finding: Finding) -> bool:
    return bool(set(side.ranks) & set(finding.suspects))


def check(server: Server, case: Case, *, twin: bool, folder: Path) -> Verdict:
    """Run a case in an empty folder and align what it leaves.

    Raises:
        LogError: it left nothing that can be aligned.

    """
    with server.run(case, twin=twin, folder=folder) as outcome:
        return Verdict(case, twin, outcome, align(outcome.logs))


def recorded(run: Run, entry: Entry) -> Verdict:
    """Align what a run left when it was recorded; its logs are gone when this returns.

    Raises:
        LogError: it left nothing that can be aligned.

    """
    with corpus.unpacked(entry.files()) as logs:
        alignment = corpus.align(logs, entry.living)
    return Verdict(run.case, run.twin, Outcome(entry.exits, logs.parent, logs), alignment)
