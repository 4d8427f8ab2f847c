"""The parts of a finding's words, and sentences that several kinds share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from collectrace import words
from collectrace.align.diagnosis.callers import at_depth, telling_depth
from collectrace.align.judging import patience
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import statements
from collectrace.findings import Side
from collectrace.records import Call


@dataclass(frozen=True, slots=True)
class Wording:
    """Headline, cause, fix, and observations that blame nobody."""

    headline: str
    cause: str
    fix: str
    notes: tuple[str, ...] = ()


Because = Literal[
    "some ranks", "left", "sizes", "uneven", "join", "threads", "messages", "message sizes",
    "roots", "elsewhere",
]  # fmt: skip
"""What a reason rests on: calls that some ranks made and others did not; a loop that some have
left; tensors of other sizes; ranks that ran out of inputs; a join() that does not answer what all
of them call; threads that share a group; messages that do not come out even, or are of another size
at either end; ranks that name different roots; a rank that waits beside all collectives."""


class Reason(NamedTuple):
    """Why, and what to change."""

    cause: str
    fix: str
    because: Because | None = None
    """What a framework's own fix may be looked for by; None: there is none for it."""
    line: str = ""
    """What to change about the line that led there: it stands before what a framework asks for."""


Explainer = Callable[[Case, Candidate], Reason | None]
"""Gives the reason where the evidence shows it, else None."""


def first(explainers: Sequence[Explainer], case: Case, candidate: Candidate) -> Reason | None:
    """The reason of the first explainer that gives one."""
    for explain in explainers:
        reason = explain(case, candidate)
        if reason is not None:
            return reason
    return None


def called(candidate: Candidate) -> list[tuple[Side, Call]]:
    """The sides that issued a call, with it.

    Where all came from one line, as in a project that has its own module for its collectives, each
    call bears the innermost line among its callers that tells the sides apart.
    """
    found = [(side, side.call) for side in candidate.sides if side.call is not None]
    depth = telling_depth([side.stack or () for side, _ in found])
    return [(side, at_depth(call, side.stack or (), depth)) for side, call in found]


def models_of(sides: Sequence[tuple[Side, Call]]) -> set[int]:
    """The numbers of the DDP models whose calls sides issued, or answered in ``join()``."""
    return {call.model or 1 for _, call in sides if call.role.startswith(("ddp.", "join."))}


def place(candidate: Candidate) -> str:
    """``call 29 of the default group``."""
    where = f"call {candidate.seq}" if candidate.seq is not None else "a call"
    if candidate.kind == "group_mismatch":
        where = "the creation"
    if candidate.group is not None:
        where += f" of {words.group(candidate.group)}"
    return where


def too_early(case: Case, candidate: Candidate, headline: str) -> Wording:
    """Ranks that had not come when the logs end, which proves nothing.

    ``headline``: who had not come to what, without a full stop.
    """
    waited = patience.waited(case, candidate)
    return Wording(
        f"{headline} when the logs end ({place(candidate)})",
        f"They had been waited for {words.seconds(waited)} at most. A healthy job that is stopped, "
        "or looked at while it runs, has ranks a call apart: this proves nothing.",
        "If the job hung here, let it hang for longer than a minute before it is stopped, and "
        "align its logs again.",
    )


def quoted(file: str, line: str) -> str:
    """```if rank == 0:` (train.py:12)``: a line of a file, given as ``number text``.

    Of one in an ``else``: ``the `else` of `if rank == 0:` (train.py:12)``.
    """
    head = statements.head_of(line)
    statement = words.brief(statements.code_of(head), _LONGEST_STATEMENT)
    told = f"`{statement}` ({place_of_line(file, head)})"
    return told if head == line else f"the `else` of {told}"


def place_of_line(file: str, line: str) -> str:
    """``train.py:12``, of a condition given as ``number text``."""
    return words.site(f"{file}:{statements.head_of(line).partition(' ')[0]}")


_LONGEST_STATEMENT: Final = 80
"""Characters of a line that is quoted."""

AMBIGUOUS = "Who is wrong is ambiguous: no side is more than half of the group."
FOLLOWS = "Nothing to change here: it goes with its cause."
UNDECIDED = " The logs do not show what decided it."
SKIPPED = " A branch skipped it on some ranks."
SKIPPED_OR_REPEATED = (
    " A branch may have skipped it there, or the call before it was made once more."
)
RAN_ON_SOME = " A branch or a loop ran on some ranks only."
VAGUE = (UNDECIDED, SKIPPED, SKIPPED_OR_REPEATED, RAN_ON_SOME)
"""What is said, after a space, where nothing is known of what led past a call."""


def is_vague(cause: str) -> bool:
    """Whether a cause says so."""
    return any(vague in cause for vague in VAGUE)


def without_vague(cause: str) -> str:
    """A cause without that, where more is known."""
    for vague in VAGUE:
        cause = cause.replace(vague, "")
    return cause


DECIDED: Final = (" under `", " behind the guard `", "parted them")
"""Words by which a cause tells of the condition that led the sides apart."""
EVERY_RANK = (
    "Every rank of a group must issue the same collectives in the same order: look above these "
    "lines for a branch or a loop that depends on the rank or on its data."
)
LOOK_ABOVE = (
    "Look above these two lines for the branch or the loop that sent the ranks to different ones, "
    "and let all ranks take the same way through it."
)
GLOO_ABORTS = "gloo aborts a process that is sent more bytes than it awaits"
SEND_ALWAYS = (
    "Let rank {rank} call {usual} in every round, with an empty message or zeros where it has "
    "nothing; or tell the receiver how many messages are to come."
)
ONE_LENGTH = (
    "Give the loop the same length on every rank: agree on the number of steps first, for example "
    "by an all_reduce (MIN), or let all ranks decide together when it ends."
)
EVEN_BATCHES = (
    "Give every rank the same number of batches: DistributedSampler (pads; cuts with "
    "drop_last=True) and DataLoader(drop_last=True)."
)
JOIN = (
    "Or train inside `with model.join():`, which answers DDP's collectives (and no others) for "
    "ranks that ran out.{first}\n"
    "Or stop all ranks when the first runs out: Join([model], throw_on_early_termination=True)."
)


def if_ended(fix: str = ONE_LENGTH) -> str:
    """A fix for the case that a loop came to its end by itself, where more may have led out."""
    return f"If the loop itself ended earlier: {words.lower(fix)}"


def loads_data(case: Case) -> bool:
    """Whether a DataLoader was seen; without one there is no batch to be ragged, or to be cut."""
    return any(log.batches for log in case.evidence.logs.values())


def even_inputs(even: str, inside: Sequence[Call] = (), *, answered: bool = True) -> str:
    """What helps against uneven inputs, after ``even``, which makes them even.

    ``inside``: the script's own calls in the same loop. ``answered``: there are calls of DDP's in
    it, which ``join()`` would answer.
    """
    if not answered:
        return even
    first = ""
    if inside:
        those = words.listed([f"{words.name(c)}{words.at(c)}" for c in inside])
        first = f" Then {those} must leave the loop: join() does not answer the script's own calls."
    return f"{even}\n{JOIN.format(first=first)}"


def each_once(names: Sequence[str], most: int = 3) -> str:
    """``barrier at train.py:9 (2 times) and 3 more``: each once, with how often it was made."""
    counts = Counter(names)
    told = [
        name if n == 1 else f"{name.removesuffix(',')} ({n} times)" for name, n in counts.items()
    ]
    rest = sum(list(counts.values())[most:])
    parts = [*told[:most], *([f"{rest} more"] if rest else [])]
    if len(parts) > 2:  # commas part them
        parts = [part.removesuffix(",") for part in parts]
    return words.listed(parts)
