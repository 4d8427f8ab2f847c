"""Whatever ranks call: what holds of every answer about them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from collectrace.align import align
from collectrace.align.alignment import compared, judged
from collectrace.align.reading.asked_files import StoreBlob
from collectrace.align.reading.run_reader import read
from collectrace.align.reading.source import Folder
from collectrace.findings import KINDS, MISMATCHES, Alignment, Finding
from tests.support.in_step import Job, Program, Step
from tests.support.mutations import Sample, aligned

REACH: Final = 64 << 10


@dataclass(frozen=True)
class Departed:
    """A program that all ranks run, of which one does something else."""

    world: int
    groups: Mapping[str, tuple[int, ...]]
    program: Program
    rank: int
    own: Program
    """What that rank runs: ``program`` with one call deleted, doubled, altered or swapped."""

    def job(self, order: Sequence[int] = ()) -> Job:
        """Return the job; ``order``: the number that each rank bears instead of its own."""
        names = order or range(self.world)
        groups = {g: tuple(names[rank] for rank in ranks) for g, ranks in self.groups.items()}
        programs = {
            names[rank]: [
                step
                for step in (self.own if rank == self.rank else self.program)
                if rank in self.groups[step.group]
            ]
            for rank in range(self.world)
        }
        return Job(self.world, groups, programs)

    @property
    def is_healthy(self) -> bool:
        """Whether it makes no difference."""
        return not self.job().differences()

    def with_rank(self) -> Departed:
        """Return the same with a rank more in all groups, which does what the others do."""
        groups = {group: (*ranks, self.world) for group, ranks in self.groups.items()}
        return replace(self, world=self.world + 1, groups=groups)

    def after(self, calls: Program) -> Departed:
        """Return the same behind calls that all ranks make."""
        return replace(self, program=[*calls, *self.program], own=[*calls, *self.own])


_STEPS: Final = st.builds(
    Step,
    line=st.integers(10, 14),
    op=st.sampled_from(["all_reduce", "broadcast"]),
    group=st.sampled_from(["0", "0", "1"]),
    size=st.sampled_from([4, 8]),
)


@st.composite
def departed(draw: st.DrawFn, least: int = 2) -> Departed:
    """Draw a program, the rank that departs from it, and how."""
    world = draw(st.integers(least, 5))
    some = draw(st.sets(st.integers(0, world - 1), min_size=2))
    groups = {"0": tuple(range(world)), "1": tuple(sorted(some))}
    body = draw(st.lists(_STEPS, min_size=1, max_size=5))
    program = body * draw(st.integers(1, 4))
    rank = draw(st.integers(0, world - 1))
    at = draw(st.sampled_from([n for n, s in enumerate(program) if rank in groups[s.group]] or [0]))
    own, one = list(program), program[at]
    match draw(st.sampled_from(["delete", "double", "swap", "op", "size", "dtype"])):
        case "delete":
            del own[at]
        case "double":
            own.insert(at, one)
        case "swap":
            own[at : at + 2] = reversed(own[at : at + 2])
        case "op":
            own[at] = replace(one, op="reduce")
        case "size":
            own[at] = replace(one, size=5)
        case _:
            own[at] = replace(one, dtype="int64")
    return Departed(world, groups, program, rank, own)


def answer(job: Job, *, full: bool = True, **how: Any) -> Alignment:
    return aligned(Sample("", job.run(**how)).files(), full=full)


def root(found: Alignment) -> Finding:
    return next(f for f in found.findings if f.severity == "error")


def told(found: Alignment) -> tuple[Any, ...]:
    """What an answer says, but for its words."""
    if not any(f.severity == "error" for f in found.findings):
        return (found.status,)
    one = root(found)
    is_circle = one.kind == "deadlock"  # begins with any of its calls
    group = one.group.name if one.group is not None and not is_circle else None
    sides = {(s.ranks, s.call.op if s.call is not None else None) for s in one.sides}
    return found.status, one.kind, group, None if is_circle else one.seq, one.suspects, sides


# -- one call of one rank ----------------------------------------------------------------------


@given(departed())
def test_a_departure_is_found_at_its_place_with_its_rank_or_is_undecided(one: Departed) -> None:
    job = one.job()
    found = answer(job)
    if one.is_healthy:
        assert (found.status, found.exit_status) == ("aligned", 0)
        return
    finding = root(found)
    assert set(finding.suspects) <= {one.rank}
    if KINDS[finding.kind].family == "call":
        assert finding.group is not None
        assert (finding.group.name, finding.seq) in job.differences()
    else:
        assert finding.kind == "deadlock"


@given(departed(least=3))
def test_the_rank_is_named_where_it_departs_from_two_others(one: Departed) -> None:
    one = replace(
        one,
        program=[replace(step, group="0") for step in one.program],
        own=[replace(step, group="0") for step in one.own],
    )
    if not one.is_healthy:
        assert root(answer(one.job())).suspects == (one.rank,)


# -- what changes nothing ----------------------------------------------------------------------


@given(departed(), st.data())
def test_ranks_of_other_numbers_get_the_same_answer(one: Departed, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(one.world)))
    status, *before = told(answer(one.job()))
    if not before:
        assert told(answer(one.job(order))) == (status,)
        return
    kind, group, seq, suspects, sides = before
    named = tuple(sorted(order[rank] for rank in suspects))
    sides = {(tuple(sorted(order[rank] for rank in ranks)), op) for ranks, op in sides}
    assert told(answer(one.job(order))) == (status, kind, group, seq, named, sides)


@given(departed(least=3))
def test_a_rank_that_agrees_with_the_others_changes_nothing(one: Departed) -> None:
    before, after = told(answer(one.job())), told(answer(one.with_rank().job()))
    assert after[:4] == before[:4]
    if before[4:]:
        assert set(after[4]) <= {one.rank}
        # A rank that waits elsewhere has no vote, and the others may be too few without it.
        if any(one.world in ranks and op is not None for ranks, op in after[5]):
            assert set(before[4]) <= set(after[4])


@given(departed(), st.integers(1, 4))
def test_earlier_calls_that_agree_change_nothing(one: Departed, count: int) -> None:
    calls = [Step(5 + n, size=100 + n) for n in range(count)]
    before, after = told(answer(one.job())), told(answer(one.after(calls).job()))
    if before[1:] and before[2] == "0":
        before = (*before[:3], before[3] + count, *before[4:])
    assert after == before


# -- ways of reading ---------------------------------------------------------------------------


class Ranks:
    """Ranks that are asked for their files, without a store."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(enumerate(files.values()))

    def ask(self, asks: Sequence[tuple[int, int, int, int]]) -> list[bytes | None]:
        return [self.files[rank][start:stop] for rank, _, start, stop in asks]


def asked(job: Job) -> Alignment:
    """What is said if the ranks are asked for their files."""
    files = Sample("", job.run()).files()
    ranks: Any = Ranks(files)
    blobs = [
        StoreBlob(name, len(data), rank, 0, ranks, REACH)
        for rank, (name, data) in enumerate(files.items())
    ]
    return align(Folder("tcpstore://", "run-1", list(blobs), None, is_fixed=True, is_far=True))


@given(departed())
def test_all_ways_of_reading_give_one_answer(one: Departed) -> None:
    job = one.job()
    whole = told(answer(job))
    with tempfile.TemporaryDirectory() as folder:
        job.run(checkpoint=400).write(Path(folder))
        skimmed = judged(compared(read(folder, small=0, page=256)))
    is_careful = skimmed.findings and not root(skimmed).suspects
    assert told(skimmed) == (_undecided(whole) if is_careful else whole)
    assert told(answer(job, checkpoint=400, segment=900)) == whole
    assert told(asked(job)) == whole


def _undecided(before: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same without suspects: what was not read may hold the facts that decided."""
    return (*before[:4], (), *before[5:])


@given(departed())
def test_a_rotated_log_gives_the_same_answer_or_says_what_it_lacks(one: Departed) -> None:
    whole, found = answer(one.job()), answer(one.job(), checkpoint=300, segment=1500, keep=3)
    if told(found) == told(whole):
        return
    assert not one.is_healthy
    if found.status == "unknown":
        assert found.evidence.notes
        return
    assert found.status != "aligned"
    assert set(root(found).suspects) <= {one.rank}


@given(departed())
def test_converted_dumps_name_the_same_place_and_no_other_rank(one: Departed) -> None:
    job = one.job()
    with tempfile.TemporaryDirectory() as folder:
        found = align(job.dumps().write(Path(folder) / "logs", form="json"))
    if one.is_healthy:
        assert not [f for f in found.findings if f.severity == "error"]
        return
    assert found.status in ("diverged", "hung")
    finding = root(found)
    # A dump does not tell that a rank has ended well: it may hang somewhere else.
    absent = {rank for side in finding.sides if side.call is None for rank in side.ranks}
    assert set(finding.suspects) <= {one.rank} | absent
    if finding.kind in MISMATCHES:
        assert finding.group is not None
        assert (finding.group.name, finding.seq) in job.differences()
