"""Everything that is known about a run before suspects are decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import chain
from typing import Concatenate, ParamSpec, TypeVar, cast

from collectrace.align.code.files import Files
from collectrace.align.code.program import Program
from collectrace.align.matching import deviations, programs
from collectrace.align.matching.comparison import Comparison, Divergence
from collectrace.align.matching.deviations import Deviation
from collectrace.align.matching.dimensions import Dimensions, dimensions
from collectrace.align.ranks import waitgraph
from collectrace.align.ranks.clocks import Clocks, estimate
from collectrace.align.ranks.standing import Standing, Waiting
from collectrace.align.ranks.states import standings
from collectrace.align.ranks.waitgraph import WaitGraph
from collectrace.align.reading import chains
from collectrace.align.reading.chains import Chains
from collectrace.align.reading.evidence import (
    LOOK_BACK,
    ChannelKey,
    Key,
    RankLog,
    RunEvidence,
    StreamKey,
)
from collectrace.align.reading.source_files import SourceFiles
from collectrace.findings import Kind, Side, State
from collectrace.internal import Faults
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call, Done, Group, backend_for
from collectrace.signature import difference, wire_text

Answer = TypeVar("Answer")
Subject = ParamSpec("Subject")


@dataclass(frozen=True)
class Case:
    """A run: what its ranks wrote, where they differ, and what each was doing at the end."""

    comparison: Comparison
    clocks: Clocks
    standings: Mapping[int, Standing]
    answers: dict[Hashable, object] = field(default_factory=dict, compare=False, repr=False)
    """Cached answers, see :func:`once`."""
    left_out: Counter[Kind] = field(default_factory=Counter, compare=False, repr=False)
    """By kind, the candidates and findings beyond the limit."""
    faults: Faults = field(default_factory=Faults, compare=False, repr=False)
    """Internal errors that cost a part of the answer."""

    @property
    def evidence(self) -> RunEvidence:
        """What its ranks wrote."""
        return self.comparison.evidence

    @cached_property
    def graph(self) -> WaitGraph:
        """Which rank waits for which."""
        return waitgraph.build(self.standings, self.comparison, self.clocks)

    @cached_property
    def dimensions(self) -> Dimensions:
        """Which groups belong to one dimension, and which ranks are stages of a pipeline."""
        return dimensions(self.evidence)

    @cached_property
    def deviations(self) -> Sequence[Deviation]:
        """Ranks that left the program that most ranks of the same kind continued."""
        finished = {r for r, s in self.standings.items() if s.state == "finished"}
        return deviations.find(self.evidence, self.comparison.groups, self.dimensions, finished)

    @cached_property
    def chains(self) -> Chains:
        """Which lines called which functions on the stacks of calls that were read so far."""
        return chains.of(self._stacks)

    @cached_property
    def frames(self) -> frozenset[str]:
        """The user's frames above all calls that were read so far."""
        return frozenset(frame for frames in self._stacks for frame in frames)

    @cached_property
    def _stacks(self) -> set[tuple[str, ...]]:
        log = next(iter(self.evidence.logs.values()), None)
        return {seen.where for seen in log.vocabulary.appearances} if log is not None else set()

    def log(self, rank: int) -> RankLog | None:
        """A rank's log, if it left one."""
        return self.evidence.logs.get(rank)

    def call(self, rank: int, key: Key, seq: int) -> Call | None:
        """Return call ``seq`` of a rank in a stream or channel."""
        log = self.log(rank)
        return log.call(key, seq) if log is not None else None

    def alike(self, ranks: Iterable[int], stream: StreamKey) -> list[list[int]]:
        """Return the ranks in classes, by position and digests: one class made the same calls.

        What is no part of a digest, such as the line of a call, may differ. A rank whose digests
        are not known is alone.
        """
        found: dict[Hashable, list[int]] = {}
        for rank in ranks:
            log = self.log(rank)
            last = log.last_seq.get(stream, 0) if log is not None else 0
            end = log.digests(stream, last) if log is not None and last else None
            if log is None or end is None or end.program is None:
                found[rank] = [rank]
            else:
                found.setdefault((log.first_row(stream), last, end), []).append(rank)
        return list(found.values())

    def sent_to_any(self, channel: ChannelKey) -> dict[int, ChannelKey]:
        """Return by sender the channels with messages that a receive from any source may get."""
        return {
            rank: one
            for rank, log in sorted(self.evidence.logs.items())
            for one in log.last_channel_seq
            if one.source == rank and one._replace(source=ANY_SOURCE) == channel
        }

    def before(
        self, rank: int, stream: StreamKey | None, seq: int | None, most: int = LOOK_BACK
    ) -> Sequence[Call | None]:
        """Return the ``most`` calls of a rank before call ``seq``, latest last.

        A call that was not recorded is None. Empty without a log or without such a call.
        """
        log = self.log(rank)
        if log is None or stream is None or seq is None:
            return []
        return log.calls(stream, max(1, seq - most), seq)

    def last_before(self, rank: int, stream: StreamKey | None, seq: int | None) -> Call | None:
        """Return the call of a rank before call ``seq``; None if none was recorded."""
        calls = self.before(rank, stream, seq, 1)
        return calls[-1] if calls else None

    def met(
        self, ranks: Sequence[int], stream: StreamKey | None, seq: int | None
    ) -> Iterator[tuple[tuple[Call, tuple[str, ...]], ...]]:
        """Yield the calls before ``seq`` that all of these ranks made, each with its stack."""
        for row in zip(*(self.before(rank, stream, seq) for rank in ranks), strict=False):
            pairs = zip(ranks, row, strict=True)
            came = tuple((call, self.stack(r, call)) for r, call in pairs if call is not None)
            if len(came) == len(ranks):
                yield came

    @cached_property
    def program(self) -> Program:
        """The functions of the program as the ranks ran them. Each is parsed once."""
        logs = self.evidence.logs.values()
        started = {tuple(log.header.argv) for log in logs} if not self.evidence.missing else set()
        return Program(
            Files(self.evidence.source_files), self.evidence.world_size,
            same_arguments=len(started) == 1 and () not in started,
        )  # fmt: skip

    @cached_property
    def lines_with_calls(self) -> Mapping[str, Collection[int]] | None:
        """By file, the lines in frames of calls; None if some calls of the run are not known."""
        logs = list(self.evidence.logs.values())
        if self.evidence.missing or not all(programs.is_whole(log) for log in logs):
            return None
        shared = [log.vocabulary.appearances for log in logs][:1]
        seen = {frame for one in chain.from_iterable(shared) for frame in (one.site, *one.where)}
        seen |= {one.site for log in logs for one in log.outside if one.site is not None}
        found: dict[str, set[int]] = {}
        for path, line in (chains.split(chains.site(frame)) for frame in seen if frame):
            found.setdefault(path, set()).add(line)
        return found

    @property
    def code(self) -> SourceFiles:
        """The files of the program as the ranks ran them."""
        return self.evidence.source_files

    def failed(self, rank: int, stream: StreamKey | None) -> list[Done]:
        """Return a rank's failed collectives of a stream that others took part in, or may have."""
        log = self.log(rank)
        return [
            done
            for done in (log.failed if log is not None else ())
            if (done.group, done.device) == stream and done.peer is None
        ]

    def failed_messages(self, rank: int, channel: ChannelKey) -> list[Done]:
        """A rank's sends or receives of a channel that raised."""
        log, is_sender = self.log(rank), rank == channel.source
        peer = channel.destination if is_sender else channel.source
        own = channel.group, channel.device, peer, channel.tag, "send" if is_sender else "recv"
        return [
            done
            for done in (log.failed if log is not None else ())
            if (done.group, done.device, done.peer, done.tag, done.op) == own
        ]

    def asked(self, waiting: Waiting) -> Group | None:
        """Return the request for the group that a rank is creating; None if it waits in a call."""
        log = self.log(waiting.rank)
        if log is None or not waiting.is_creation:
            return None
        return next((one for one in reversed(log.groups) if one.group == waiting.group), None)

    def issued(self, rank: int, call: Call | None) -> int | None:
        """Return when a rank issued a call, on the shared clock, ns."""
        return self.clocks.when(rank, call.t) if call is not None else None

    def first(self, calls: Mapping[int, Call | None]) -> int:
        """Return when the first of some calls was issued, ns; 0 if there is none."""
        times = [t for rank, call in calls.items() if (t := self.issued(rank, call)) is not None]
        return min(times, default=0)

    def backend(self, stream: StreamKey) -> str:
        """The backend that serves a stream."""
        info = self.comparison.groups.get(stream.group)
        return backend_for(info.backend, stream.device) if info is not None else ""

    def sides(self, source: Divergence) -> tuple[Side, ...]:
        """Return the ranks of a difference grouped by what they did, absent ones last."""
        backend = self.backend(source.stream)
        bad = {rank for pair in source.bad_pairs for rank in pair}
        ways = self._ways(source) if source.swapped else {}
        sides: list[tuple[Call, list[int]]] = []
        alike: dict[Hashable, list[int]] = {}
        """# By look, the sides with such calls; None: calls that match any other."""
        for rank, call in sorted(source.calls.items()):
            if call is None:
                continue
            look = ways[rank] if source.swapped else _look(call, source, backend)
            near = sorted([*alike.get(look, ()), *alike.get(None, ())])
            for known, ranks in (sides[n] for n in near) if look else sides:
                alone = rank in bad or ranks[0] in bad
                if source.swapped:
                    is_same = ways[rank] == ways[ranks[0]]
                else:
                    is_same = _same(known, call, source, backend)
                if not alone and is_same:
                    ranks.append(rank)
                    break
            else:
                alike.setdefault(look, []).append(len(sides))
                sides.append((call, [rank]))
        came = [
            Side(ranks=tuple(r), call=c, state=self._state(r), stack=self.stack(r[0], c) or None)
            for c, r in self._comparable(source, sides)
        ]
        return (*came, *self.absentees(r for r, c in source.calls.items() if c is None))

    def _comparable(
        self, source: Divergence, sides: Sequence[tuple[Call, list[int]]]
    ) -> Iterator[tuple[Call, list[int]]]:
        """Yield the same sides, each starting with the rank most comparable to the smallest side.

        Ranks of one side may run different functions, such as sender and receiver. A rank that runs
        the functions of the smallest side shows best where they diverged.
        """
        if not sides:
            return
        least, few = min(sides, key=lambda side: len(side[1]))
        scopes = self._scopes(few[0], least)
        for call, ranks in sides:
            shared = {r: chains.shared(self._scopes(r, source.calls[r]), scopes) for r in ranks}
            near = max(ranks, key=shared.__getitem__)
            made = source.calls[near]
            if ranks is few or made is None or (made.op, made.role) != (call.op, call.role):
                yield call, ranks
            else:
                yield made, [near, *(rank for rank in ranks if rank != near)]

    def _scopes(self, rank: int, call: Call | None) -> list[tuple[str, str]]:
        stack = self.stack(rank, call) if call is not None else ()
        return [chains.scope(frame) for frame in stack]

    def _ways(self, source: Divergence) -> dict[int, tuple[str, ...]]:
        """Return by rank the lines that distinguish its call from the others' calls."""
        calls = {rank: call for rank, call in source.calls.items() if call is not None}
        stacks = [self.stack(r, c) or (c.site or "", c.via or "") for r, c in calls.items()]
        return dict(zip(calls, chains.ways(stacks), strict=True))

    def absentees(self, ranks: Iterable[int]) -> tuple[Side, ...]:
        """Return ranks that made no call there, grouped by what they did instead."""
        by_state: dict[State, list[int]] = {}
        for rank in sorted(ranks):
            by_state.setdefault(self.standings[rank].state, []).append(rank)
        return tuple(Side(ranks=tuple(r), call=None, state=s) for s, r in by_state.items())

    def side(self, rank: int, call: Call | None) -> Side:
        """Return one rank as a side."""
        stack = self.stack(rank, call) or None if call is not None else None
        return Side(ranks=(rank,), call=call, state=self.standings[rank].state, stack=stack)

    def stack(self, rank: int, call: Call | Group) -> tuple[str, ...]:
        """Return the user's frames above a call or a group request, innermost first.

        Empty if they are not known.
        """
        log = self.log(rank)
        found = log.stack(call) if log is not None else None
        return tuple(found.frames) if found is not None else ()

    def frames_or_line(self, rank: int, call: Call) -> tuple[str, ...]:
        """Return the user's frames above a call, innermost first, or only its line."""
        return self.stack(rank, call) or (call.site or "",)

    def _state(self, ranks: Sequence[int]) -> State:
        return Counter(self.standings[r].state for r in ranks).most_common(1)[0][0]


def once(
    function: Callable[Concatenate[Case, Subject], Answer],
) -> Callable[Concatenate[Case, Subject], Answer]:
    """Decorate a function of a case and hashable arguments to compute each answer once per case."""

    @wraps(function)
    def asked(case: Case, /, *args: Subject.args, **kwargs: Subject.kwargs) -> Answer:
        key = function, args, *kwargs.items()
        if key not in case.answers:
            case.answers[key] = function(case, *args, **kwargs)
        return cast(Answer, case.answers[key])

    return asked


def build(comparison: Comparison, now: int | None = None) -> Case:
    """Return the case of a compared run. ``now``: ns since 1970, by default the present."""
    clocks = estimate(comparison)
    return Case(comparison, clocks, standings(comparison.evidence, clocks, now, comparison.cut))


def _look(call: Call, source: Divergence, backend: str) -> Hashable:
    """Return what the calls of one side have in common; None if a call matches any other."""
    if source.attribute == "shape":
        return str(call.shape), str(call.out_shape)
    if source.attribute == "model":
        return "model", call.model
    return None if call.void else wire_text(call, backend)


def _same(a: Call, b: Call, source: Divergence, backend: str) -> bool:
    if source.attribute == "shape":
        return a.shape == b.shape and a.out_shape == b.out_shape
    if source.attribute == "model":
        return a.model == b.model
    return difference(a, b, backend) is None
