"""Where a call was made, in words: its line, and the line that called the function it stands in.

In a project whose collectives go through a module of its own, the line of a call is always the
same few; what a person must look at is the line that called it. So it is named wherever it tells
more than the function that the call stands in is known to tell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Final

from collectrace import words
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case
from collectrace.align.ranks.standing import Waiting
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import StreamKey
from collectrace.align.reading.vocabulary import Appearance
from collectrace.records import Call, Group
from collectrace.signature import is_asked, is_asked_by


def place_of(case: Case, rank: int, call: Call, *, within: str = "", brief: bool = False) -> str:
    """`` at train.py:24 in clip()``; `` at comm.py:13 in mean(), called at train.py:24 in clip()``.

    The functions as far as they are known. A call that bears the line of one of its callers is said
    to be called there; else its caller is named where the call stands in a helper.

    Args:
        case: the run.
        rank: whose call it is.
        call: as it was recorded, or bearing the line of a caller.
        within: the frame of the caller that is to be named, if another than that.
        brief: leave the functions out, as where they have been named before.

    """
    frames = _named_frames(case, rank, call, within, brief=brief)
    if not frames:
        known = call.site is not None and is_asked(call) and not brief
        return words.at(call) + (_inside(function_of(case, call)) if known else "")
    here, *outer = frames
    text = words.at_site(chains.site(here))
    text += "" if brief or not (is_asked(call) or within) else inside(here)
    stack = case.stack(rank, call)
    for frame in outer:
        verb = _CALLED[frame != stack[1]]
        there = "" if brief else inside(frame)
        text += f", {verb} {words.site(chains.site(frame))}{there}"
    return text


def lines(case: Case, rank: int, call: Call) -> list[str]:
    """``path:line`` of each line that :func:`place_of` names."""
    return [chains.site(frame) for frame in _named_frames(case, rank, call)]


def _named_frames(
    case: Case, rank: int, call: Call, within: str = "", *, brief: bool = False
) -> list[str]:
    """The frame of a call, and those of the callers that are to be named, if any.

    For a call that a model makes as it runs these are the line that applied an autograd function,
    and the one that ran the model, which ``brief`` leaves out. Nothing where the call's line is in
    none of its frames, as where they were not recorded.
    """
    frames = case.stack(rank, call)
    sites = [chains.site(frame) for frame in frames]
    if call.site not in sites:
        return []
    outer = frames.index(within) if within in frames else sites.index(call.site)
    outside = frames[_depth_beside(case, frames)] if not outer else ""
    if not outer and is_in_helper(case, rank, call):
        outer = 1
    caller = frames[outer] if outer else ""
    named = [caller]
    if not within:
        if is_asked(call):
            borne = caller if call.site != sites[0] else ""
            named = [_applied(case, frames) or caller, borne, outside]
        named.append(through_model(case, rank, call) if not brief else "")
    return list(dict.fromkeys(filter(None, [frames[0], *named])))


def _applied(case: Case, frames: Sequence[str]) -> str:
    """The frame that applied the autograd function in which a call was made; empty: none did."""
    for inner, outer in pairwise(frames[: _NEAR + 1]):
        if chains.method(inner) == "forward" and statements.is_of_autograd_function(
            case.statements(chains.site(inner))
        ):
            return outer
    return ""


def newest(case: Case, rank: int, stream: StreamKey | None, seq: int | None) -> str:
    """The innermost of a call's callers that no call of the rank before had; empty: none, or all.

    It tells what is new about a call of a function that was called before, from elsewhere.
    """
    *before, call = case.before(rank, stream, (seq or 0) + 1) or [None]
    stacks = [case.stack(rank, one) for one in before if one is not None]
    seen = {frame for stack in stacks for frame in stack}
    stack = case.stack(rank, call) if call is not None else ()
    new = next((frame for frame in stack if frame not in seen), "")
    return new if stacks and new and new != stack[0] else ""


def named(case: Case, rank: int, call: Call, *, within: str = "", brief: bool = False) -> str:
    """``all_reduce at comm.py:13 in mean(), called at train.py:24 in clip()``."""
    return words.name(call) + place_of(case, rank, call, within=within, brief=brief)


def through_model(case: Case, rank: int, call: Call) -> str:
    """The frame that ran the model, for a call made in it; empty: it was made elsewhere.

    That is in a module's ``forward()`` or an autograd function's ``backward()``, or in a helper of
    these. Modules run each other by ``forward()`` after ``forward()``: the first that is none.
    """
    frames = case.stack(rank, call)
    if not frames or call.site != chains.site(frames[0]):
        return ""
    inner = next(
        (n for n, frame in enumerate(frames[:_NEAR]) if chains.method(frame) in _OF_MODEL), None
    )
    if inner is None:
        return ""
    further = frames[inner + 1 :]
    if chains.method(frames[inner]) == "backward":
        return next(iter(further), "")
    return next((frame for frame in further if chains.method(frame) != "forward"), "")


_OF_MODEL: Final = ("forward", "backward")
_NEAR: Final = 3
"""Frames, the innermost, of which one is the model's where a helper of it made the call."""


def of_group(case: Case, rank: int, group: Group) -> str:
    """`` at groups.py:23, called at train.py:24``: where a group was asked for."""
    frames = case.stack(rank, group)
    named = group.site == chains.site(frames[0]) if frames else False
    if not named or not is_in_helper(case, rank, group):
        return words.at_site(group.site)
    return f"{words.at_site(group.site)}, called{words.at_site(chains.site(frames[1]))}"


_CALLED: Final = ("called at", "reached from")
"""What is said of the caller of a call's function, and of one further out."""


def closed(text: str) -> str:
    """What names a caller, in the middle of a sentence: ``..., called at train.py:24,``."""
    return f"{text}," if any(f", {verb}" in text for verb in _CALLED) else text


def whole(case: Case, rank: int, call: Call) -> str:
    """A call with its arguments, where it was made: ``words.call`` with who called it."""
    return words.call(call, place_of(case, rank, call, brief=True))


def is_in_helper(case: Case, rank: int, call: Call | Group) -> bool:
    """Whether the line that called the function of a call tells more than the call's own line.

    Or that of a request for a group.

    So it does where calls have come through that function from several lines, or from another
    file; and where no condition of the function's own is around the call, so that whatever decided
    about it stands further out.
    """
    frames = case.stack(rank, call)
    if len(frames) < 2 or not chains.function(frames[0]):
        return False
    if has_callers(case, frames[0]):
        return True
    if isinstance(call, Call) and not is_asked(call):
        return False  # a line that runs a model, or a backward(), is no helper by its looks
    if chains.file(frames[0]) != chains.file(frames[1]):
        return True
    own = statements.in_function(case.statements(chains.site(frames[0])))
    if not own or statements.branches(own):
        return False
    if not chains.function(frames[1]):
        # At the level of the script: a function with a loop is its main loop.
        return not statements.loops(own) and _is_in_loop(case, frames[1])
    # A loop may be the program's, too: then its caller came to it and to nothing else.
    return not statements.loops(own) or len(case.chains.lines.get(chains.place(frames[1]), ())) > 1


def has_callers(case: Case, frame: str) -> bool:
    """Whether several lines were seen to call the function of a frame."""
    return len(case.chains.callers.get(chains.place(frame), ())) > 1


def _is_in_loop(case: Case, frame: str) -> bool:
    return bool(statements.loops(case.statements(chains.site(frame))))


def _depth_outside(case: Case, frames: Sequence[str]) -> int:
    """How many frames out the helper is left that a call stands in; 0: it is in none.

    Several lines called its function, or its module. Helpers that it serves are left with it:
    functions that nothing came through but by the one line, in no loop, from several lines or
    another file.
    """
    if not frames:
        return 0
    has_uses = len(case.chains.uses.get(chains.file(frames[0]), ())) > 1
    return _depth_beside(case, frames) if has_uses or has_callers(case, frames[0]) else 0


def _depth_beside(case: Case, frames: Sequence[str]) -> int:
    """The same of the line that is named beside the call's own: one use of a module will do."""
    if not frames:
        return 0
    if has_callers(case, frames[0]):
        return _past_helpers(case, frames, 1)
    out = _depth_out_of_module(case, frames)
    return _past_helpers(case, frames, out) if out else 0


def _depth_out_of_module(case: Case, frames: Sequence[str]) -> int:
    """How many frames out the module of a call is left, if that is a helper's; 0: it is none.

    The program's loop is around its use, and none of its own around the call. What the rest of the
    chain comes from again is no helper, but handed its function to one: to a retry, or as a
    callback. Nor is a module of a model, whose lines tell more than the one that runs it, or what
    Python calls by itself, from wherever the last reference goes.
    """
    own = chains.file(frames[0])
    inner = [*takewhile(lambda frame: chains.file(frame) == own, frames)]
    outer = frames[len(inner) :]
    if any(_is_run(frame) or _is_repeated(case, frame) for frame in inner):
        return 0
    if any(chains.file(frame) == own for frame in outer):
        return 0
    return len(inner) if any(_is_in_loop(case, frame) for frame in outer) else 0


def _is_run(frame: str) -> bool:
    """Whether a frame is of a model that is run, or of what Python calls by itself."""
    return chains.method(frame) in (*_OF_MODEL, "__del__")


def _is_repeated(case: Case, frame: str) -> bool:
    """Whether a loop of its function goes on after a frame's line: it does not after a return."""
    around = case.statements(chains.site(frame))
    return bool(statements.loops(around)) and not _RETURN.match(statements.code_of(around[-1]))


_RETURN: Final = re.compile(r"return\b")


def _past_helpers(case: Case, frames: Sequence[str], out: int) -> int:
    """How many frames out the helpers are left, too, that a line so many frames out stands in."""
    further = pairwise(frames[out:])
    return out + sum(1 for _ in takewhile(lambda pair: _only_passes_on(case, *pair), further))


def _only_passes_on(case: Case, frame: str, caller: str) -> bool:
    if len(case.chains.lines.get(chains.place(frame), ())) > 1 or not chains.function(frame):
        return False
    if statements.loops(case.statements(chains.site(frame))):
        return False
    return has_callers(case, frame) or chains.file(frame) != chains.file(caller)


def telling(case: Case, rank: int, call: Call) -> Call:
    """A call that bears the line of its caller where its own is that of calls from several."""
    frames = case.stack(rank, call)
    if not is_asked(call) or len(frames) < 2 or call.site != chains.site(frames[0]):
        return call
    return at_depth(call, frames, _depth_outside(case, frames))


def telling_each(case: Case, made: Sequence[tuple[int, Call]]) -> list[Call]:
    """What :func:`telling` gives for ranks' calls that met, told by lines of one kind.

    Where one is told by its caller's line, and from the function of that another went into a
    helper, that other one bears the line of the same function.
    """
    told = [telling(case, rank, call) for rank, call in made]
    led = next((n for n, (_, call) in enumerate(made) if told[n] is not call), None)
    if led is None:
        return told
    way = case.stack(*made[led])
    return [
        _from_function(case, rank, call, way, told[led].site) if one is call else one
        for one, (rank, call) in zip(told, made, strict=True)
    ]


def _from_function(case: Case, rank: int, call: Call, way: Sequence[str], site: str | None) -> Call:
    """A call that bears its line of the function in which it parted from another's way at a line.

    As it is where they parted elsewhere, or where it stands in no helper.
    """
    frames = case.stack(rank, call)
    here, there = chains.outermost_apart(frames, way)
    if not here or chains.site(there) != site or chains.scope(here) != chains.scope(there):
        return call
    inner = frames[: frames.index(here)]
    own = not is_asked(call) or call.site != chains.site(frames[0])
    if own or any(map(_is_run, inner)) or not is_in_helper(case, rank, call):
        return call
    return replace(call, site=chains.site(here))


def telling_line(case: Case, seen: Appearance) -> str:
    """The line that :func:`telling` gives to calls of one appearance."""
    frames = seen.where
    if not is_asked_by(seen.role) or not frames or seen.site != chains.site(frames[0]):
        return seen.site
    return chains.site(frames[_depth_outside(case, frames)])


def at_its_line(case: Case, rank: int, call: Call) -> str:
    """`` at comm.py:13``; ``, called at train.py:24`` besides where that stands in a helper."""
    frames = case.stack(rank, call)
    if not is_asked(call) or not frames or call.site != chains.site(frames[0]):
        return words.at(call)
    depth = _depth_beside(case, frames)
    if not depth:
        return words.at(call)
    return f"{words.at(call)}, {_CALLED[depth > 1]} {words.site(chains.site(frames[depth]))}"


def at_wait(case: Case, waiting: Waiting) -> str:
    """`` at comm.py:13, called at train.py:24``: where a rank waits, as :func:`at_its_line`."""
    call, asked = _at_its_own_line(case, waiting), case.asked(waiting)
    if asked is not None:
        return of_group(case, waiting.rank, asked)
    return (
        at_its_line(case, waiting.rank, call) if call is not None else words.at_site(waiting.site)
    )


def site_of_wait(case: Case, waiting: Waiting) -> str | None:
    """The line at which a rank waits; of a helper's the one that called it."""
    call = _at_its_own_line(case, waiting)
    return telling(case, waiting.rank, call).site if call is not None else waiting.site


def _at_its_own_line(case: Case, waiting: Waiting) -> Call | None:
    """The call that a rank waits for, where it does so at the line of that, not in a wait()."""
    call = waited_for(case, waiting)
    return call if call is not None and call.site == waiting.site else None


def telling_depth(stacks: Sequence[Sequence[str]]) -> int:
    """How many frames out, from the line of the calls, their callers differ; 0: nowhere."""
    if len(stacks) < 2:
        return 0
    for depth, frames in enumerate(zip(*stacks, strict=False)):
        if len(set(frames)) > 1:
            return depth
    return 0


def at_depth(call: Call, stack: Sequence[str], depth: int) -> Call:
    """A call that bears the line of one of its callers, so many frames out."""
    if not depth or depth >= len(stack):
        return call
    return replace(call, site=chains.site(stack[depth]))


def function_of(case: Case, call: Call) -> str:
    """The function that a call's line stands in, by its source; empty where that is not known."""
    return statements.function(case.statements(call.site))


def inside(frame: str) -> str:
    """`` in clip()``: the function of a frame; empty at the level of a module."""
    return _inside(chains.function(frame))


def _inside(function: str) -> str:
    name = function.rpartition("<locals>.")[2]
    return f" in {name}()" if name.rpartition(".")[2].isidentifier() else ""
