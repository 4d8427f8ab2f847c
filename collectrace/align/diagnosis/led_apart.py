"""Sides that one line led to different functions, of the script's own or of a library.

What a line hands to a library, or calls by a name that many have, is called in turn: parts of a
checkpoint, callbacks, hooks. That it came to another one is all that the stacks tell; the condition
or the order that decided it stands in no line of theirs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis.standpoint import Standpoint, standpoints
from collectrace.align.diagnosis.wording import (
    DECIDED,
    EVERY_RANK,
    Reason,
    is_vague,
    place_of_line,
    without_vague,
)
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, statements


def added(case: Case, candidate: Candidate, reason: Reason) -> Reason:
    """A reason with where one line led the sides, if it names nothing that decided it."""
    is_open = reason.because == "some ranks" or is_vague(reason.cause)
    if not is_open or candidate.cause is not None:
        return reason
    if any(told in reason.cause for told in (*DECIDED, *_LED)):
        return reason
    found = led(case, candidate)
    if found is None:
        return reason
    fix = reason.fix.replace(EVERY_RANK, found.fix) if found.fix else reason.fix
    return reason._replace(cause=without_vague(reason.cause) + found.cause, fix=fix)


_LED: Final = (" may have led ", " leads past ")
"""Words by which a cause tells of a way past a call."""


def led(case: Case, candidate: Candidate) -> Reason | None:
    """Where one line led two sides: a sentence after a space, and what to change about it.

    None where the sides part otherwise, or the line itself names what was called.
    """
    points = standpoints(candidate)
    if len(points) != 2:
        return None
    one, two = points
    common = chains.shared(one.stack, two.stack)
    if not common:
        return None
    line = one.stack[-common]
    ways = [_Way.of(case, point, common) for point in points]
    if any(way.is_of_library for way in ways):
        return _in_library(line, points, ways, _paths_before(case, candidate, points))
    return _in_script(case, line, points)


def _paths_before(
    case: Case, candidate: Candidate, points: Sequence[Standpoint]
) -> list[Sequence[str]]:
    """The functions of a library above the call that each side made before."""
    found: list[Sequence[str]] = []
    for point in points:
        log = case.log(point.ranks[0])
        call = case.last_before(point.ranks[0], candidate.stream, candidate.seq)
        stack = log.stack(call) if log is not None and call is not None else None
        found.append(stack.path if stack is not None else ())
    return found


class _Way:
    """What lies between a line and a side's call: functions of the script's own, or a library's."""

    def __init__(self, own: Sequence[str], path: Sequence[str]) -> None:
        self.own, self.path = own, path

    @staticmethod
    def of(case: Case, point: Standpoint, common: int) -> _Way:
        own = point.stack[: len(point.stack) - common]
        log = case.log(point.ranks[0])
        stack = log.stack(point.call) if log is not None else None
        return _Way(own, () if own or stack is None else stack.path)

    @property
    def is_of_library(self) -> bool:
        """Whether no frame of the script's own is between, and functions of a library are."""
        return not self.own and bool(self.path)


def _in_script(case: Case, line: str, points: Sequence[Standpoint]) -> Reason | None:
    """Two functions of the script's own, which the line does not name."""
    here, there = chains.outermost_apart(points[0].stack, points[1].stack)
    if not here or not there or chains.scope(here) == chains.scope(there):
        return None
    around = case.statements(chains.site(line))
    text = statements.code_of(around[-1]) if around else ""
    methods = [chains.method(_plain(frame)) for frame in (here, there)]
    if not text or not all(methods):
        return None
    if methods[0] != methods[1] and any(re.search(rf"\b{re.escape(m)}\b", text) for m in methods):
        return None
    place = place_of_line(chains.file(line), around[-1])
    to = [
        f"{words.ranks(point.ranks)} to {_plain(chains.function(frame))}()"
        f"{words.at_site(chains.site(frame))}"
        for point, frame in zip(points, (here, there), strict=True)
    ]
    in_turn = methods[0] == methods[1] or bool(_IN_TURN.search(text) or case.loops((line,)))
    if not in_turn:
        return Reason(
            f" Line {place} led {words.listed(to)}: what it calls is another function there.",
            f"Let what {place} calls be the same on every rank: choose it by what all agree on.",
        )
    return Reason(
        f" Line {place} led {words.listed(to)}: what it calls or goes through is another there, or "
        "comes in another order, or some ranks went through one of them without a call.",
        f"Let what {place} calls or goes through be the same on every rank, decided by what all "
        "agree on. Where it is several things, in one order: sorted by name, not as files were "
        "found, or as a set or a dict was filled.",
    )


_IN_TURN: Final = re.compile(r"\bfor\b|\bmap\(")


def _plain(name: str) -> str:
    """The function of a frame, or its name, without what is defined within it."""
    return name.partition(".<locals>")[0]


def _in_library(
    line: str, points: Sequence[Standpoint], ways: Sequence[_Way], before: Sequence[Sequence[str]]
) -> Reason | None:
    """At least one side is in the library that the line called."""
    paths = [way.path for way in ways]
    shared = chains.shared(*(path[::-1] for path in paths))
    if all(paths) and (not shared or shared >= min(map(len, paths))):
        return None
    went = [
        f"{words.ranks(point.ranks)} in {_told(way, shared if all(paths) else 0)}"
        for point, way in zip(points, ways, strict=True)
    ]
    within = f", in {paths[0][shared - 1]}()" if all(paths) else ""
    text = f" All are in what {words.site(chains.site(line))} called{within}: {words.listed(went)}."
    for name, meaning in _ALONE.items():
        if sum(name in path for path in paths) == 1:
            return Reason(f"{text} {meaning}", "")
    steps = {
        p[shared]: words.ranks(point.ranks) for p, point in zip(paths, points, strict=True) if p
    }
    for (over, on), known in _KNOWN.items():
        if over not in steps or on not in steps:
            continue
        if any(over in path for path in before):
            return Reason(
                f"{text} {words.upper(steps[on])} had gone on from {over}() to the next turn, "
                f"where {steps[over]} made another call in it.",
                "",
            )
        told = known.cause.format(over=steps[over], on=steps[on])
        return Reason(f"{text} {told}", known.fix)
    return Reason(text, "")


_STOPPED: Final = Reason(
    "The epoch was over on {over}, and not on {on}: as where trainer.should_stop was set, or where "
    "there were fewer batches, on some ranks only.",
    "End the epoch on every rank in the same step: set trainer.should_stop by what all ranks agree "
    "on (trainer.strategy.reduce_boolean_decision(flag, all=False)), and give every rank as many "
    "batches.",
)
_ENDED: Final = Reason(
    "The training had ended on {over}, and not on {on}: as where a callback such as "
    "EarlyStoppingCallback set control.should_training_stop by what only that rank had measured, "
    "or where it had fewer steps to do.",
    "Let the training end on every rank in the same step: decide by what all ranks hold alike "
    "(gather what is measured first, as compute_metrics gets it, or broadcast one rank's decision "
    "to set control.should_training_stop on all), and give all as many steps.",
)
_KNOWN: Final = {
    # fit_loop.py and training_epoch_loop.py, lightning 2.6.6; EarlyStopping decides by the same
    # reduce_boolean_decision (early_stopping.py).
    ("_FitLoop.on_advance_end", "_FitLoop.advance"): _STOPPED,
    # trainer.py, transformers 5.23.0: _inner_training_loop leaves its epochs by the callbacks'
    # control.should_training_stop; EarlyStoppingCallback (trainer_callback.py) asks the metrics.
    ("Trainer._finalize_training", "Trainer._run_epoch"): _ENDED,
}
"""By two functions of one library where paths part: what it means, and what to change."""

_ALONE: Final = {
    # progress_bar.py, lightning 2.6.6: see framework_fixes.py.
    "ProgressBar.get_metrics": "Lightning's progress bar is on rank 0 alone: to fill it, what "
    "was logged is reduced there before the module's own hook, and elsewhere behind it.",
}
"""By a function of a library through which one side came: what that means."""


def _told(way: _Way, shared: int) -> str:
    """``on_fit_end() at train.py:9``; of a library the functions by which it went on."""
    if way.own:
        frame = way.own[-1]
        return f"{_plain(chains.function(frame))}(){words.at_site(chains.site(frame))}"
    further = list(way.path[shared:])
    chosen = further[:1] if shared else []
    public = [name for name in further[len(chosen) :] if not _PRIVATE.search(name)]
    return " > ".join([*chosen, *public[:_MOST]] or further[:_MOST])


_PRIVATE: Final = re.compile(r"(^|\.)_")
_MOST: Final = 2
"""Functions of a library that are named, behind the one where the paths part."""
