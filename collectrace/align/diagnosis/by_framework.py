"""Which row of ``framework_fixes`` is about the calls that a reason is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectrace import dumps
from collectrace.align.diagnosis import edits
from collectrace.align.diagnosis.framework_fixes import TABLE, Fix, Made
from collectrace.align.diagnosis.wording import Because, Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.parted import parted
from collectrace.align.judging.program import deviation
from collectrace.align.ranks.standing import Standing
from collectrace.records import Call
from collectrace.signature import is_asked, is_user


def applied(case: Case, candidate: Candidate, reason: Reason) -> str:
    """The fix of a reason, with what the framework at work asks for before it, or in its place."""
    if reason.because is None:
        return reason.fix
    found = _row(case, candidate, reason.because)
    if found is None:
        return reason.fix
    if reason.line:
        rest = "" if found.replaces else reason.fix.removeprefix(reason.line).strip()
        return "\n".join(filter(None, (reason.line, found.text, rest)))
    return found.text if found.replaces else f"{found.text}\n{reason.fix}"


def of_messages(
    case: Case, ranks: Sequence[tuple[int, Call | None]], because: Because = "messages"
) -> str:
    """What to change about messages that do not come out even, or differ in size.

    Empty where no framework sent them.
    """
    made = [_made(case, rank, call) for rank, call in ranks if call is not None]
    found = _first(made, because) if made and not any(is_user(m.call) for m in made) else None
    return found.text if found is not None else ""


def waits_beside(standing: Standing) -> tuple[Fix, str] | None:
    """The row about a function in which a rank waits beside all collectives, and the user's line.

    By the stacks of its last stall.
    """
    stall = standing.log.stall if standing.log is not None else None
    rows = [row for row in TABLE if "elsewhere" in row.because]
    for frames in stall.stacks.values() if stall is not None else ():
        own = dumps.own(frames)
        for row in rows:
            package, _, function = row.path.rpartition(".")
            part = f"/{package.replace('.', '/')}/"
            if own and any(part in f and f.endswith(f" {function}") for f in frames):
                return row, own[-1].rpartition(" ")[0]
    return None


def _row(case: Case, candidate: Candidate, because: Because) -> Fix | None:
    """The row that is about the calls of a reason."""
    if because == "some ranks":
        made = list(_some_made(case, candidate))
        return _first(made, because, whole_forward=_is_whole(case, candidate))
    made = [_made(case, s.ranks[0], c) for s, c in called(candidate)]
    if because == "sizes" and len({(m.call.role, m.call.part) for m in made}) > 1:
        return None
    return _first(made, because)


def _first(made: Sequence[Made], because: Because, *, whole_forward: bool = False) -> Fix | None:
    """The first row about one of some calls, in the order of the calls."""
    rows = [row for row in TABLE if because in row.because]
    rows = [row for row in rows if whole_forward or not row.whole_forward]
    return next((row for one in made for row in rows if row.fits(one)), None)


def _is_whole(case: Case, candidate: Candidate) -> bool:
    """Whether some ranks ran several modules, from a line to which no other rank ever came."""
    lines = parted(case, candidate)
    if lines is None or lines.extra is None or not lines.extra.is_alone:
        return False
    return len({call.part for call in lines.extra.calls}) > 1


def _some_made(case: Case, candidate: Candidate) -> Iterator[Made]:
    """The calls that some ranks made and others did not, as far as that is known.

    Else the calls of the row, where it is seen that they are not the same one: then a call that
    the script asks for by name tells more than one that comes with a forward or a backward.
    """
    known = _known(case, candidate)
    if known:
        yield from (_made(case, rank, call) for rank, call in known)
        return
    sides = called(candidate)
    suspects = set(candidate.suspects)
    if any(is_user(call) and set(side.ranks) <= suspects for side, call in sides):
        sides = [(s, c) for s, c in sides if set(s.ranks) <= suspects]
    alike = len({(c.role, c.part, c.op, c.site) for _, c in sides}) == 1
    if alike and not candidate.absent and len(sides) > 1:
        return
    own = [(s, c) for s, c in sides if is_asked(c)]
    listed = own or sides
    listed.sort(key=lambda one: (is_user(one[1]), not set(one[0].ranks) <= suspects))
    yield from (_made(case, side.ranks[0], call) for side, call in listed)


def _known(case: Case, candidate: Candidate) -> list[tuple[int, Call]]:
    """The calls that are known to be too many or too few, with a rank that made them."""
    lines = parted(case, candidate)
    if lines is not None and lines.extra is not None:
        return [(lines.extra.rank, call) for call in lines.extra.calls]
    left = deviation(case, candidate)
    if left is not None and left.what in ("missing", "extra"):
        made = left.ranks if left.what == "extra" else left.others
        return [(made[0], call) for call in left.calls]
    edit = edits.edit(case, candidate)
    if edit is not None and edit.what in ("extra", "missing"):
        made = edit.ranks if edit.what == "extra" else edit.others
        return [(made[0], call) for call in edit.calls]
    return []


def _made(case: Case, rank: int, call: Call) -> Made:
    log = case.log(rank)
    stack = log.stack(call) if log is not None else None
    path = tuple(stack.path) if stack is not None else ()
    return Made(call, path, case.statements(call.site))
