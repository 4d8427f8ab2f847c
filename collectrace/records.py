"""The lines of a rank file: each kind, and its fields.

A rank file is JSONL: one object per line, ``kind`` first. Every line is complete in itself, so you
can grep it. Skip kinds and fields that you do not know: new ones do not make a new version. A field
that changes its meaning does.

Format history
==============

1. The first.
2. A ``group`` record of many members has ``ranges`` in place of ``ranks``, which then is empty. A
   reader of version 1 would take it for a group without members.

Conventions: times are nanoseconds of the process's monotonic clock (the header pairs it with
the wall clock); ranks, roots and peers are global ranks; a field that does not apply is absent.
"""

# ``python -m collectrace schema`` prints this docstring and the fields of the dataclasses.

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, Final

import orjson

from collectrace import members
from collectrace.errors import DamagedRecord
from collectrace.members import Members

FORMAT: Final = 2

LISTED: Final = 32
"""Members that a group record lists; people and other tools read a list more easily."""

DEFAULT_GROUP: Final = "default_pg"
"""torch's description of the group that ``init_process_group`` makes."""

NATIVE: Final = "native-"
"""Prefix of the names of threads that Python did not start: those of backends and autograd."""

Shape = list[int] | list[list[int]]
"""One tensor's shape, or one shape per tensor if the op takes a list."""


def _doc(text: str, **kwargs: Any) -> Any:
    return field(metadata={"doc": text}, **kwargs)


def _opt(text: str) -> Any:
    return _doc(text, default=None)


@dataclass(slots=True, kw_only=True)
class Activity:
    """What one thread of a rank is doing."""

    thread: str = _doc("thread name, `MainThread` for the main one; `device`: its type")
    what: str = _doc("`call`, `wait`, `backward`, `group`, `batch`, `sync`; `device` for a device")
    since: int = _doc("when it began, ns")
    group: str | None = _opt("group of the collective")
    device: str | None = _opt("device type of the collective")
    seq: int | None = _opt("sequence number of the collective")
    op: str | None = _opt("op of the collective")
    peer: int | None = _opt("peer of a point-to-point op")
    tag: int | None = _opt("tag of a point-to-point op")
    site: str | None = _opt("`path:line` in the user's code")
    started: bool | None = _opt(
        "whether a device has begun with it; absent: that is not known, or it is no device's"
    )


@dataclass(slots=True, kw_only=True)
class FrameValues:
    """Values of the variables of one function that its code can use in a condition."""

    frame: str = _doc("`path:line function`: where the function was, as in a `stack` record")
    first_line: int = _doc("where the function begins, its decorators included")
    values: dict[str, Any] = _doc(
        "by name (`step`, `self.step`, `self.args.debug`): null, a truth value or a number as it "
        "is; of all else an object with the name of its `type` and, as far as they apply, `value` "
        "(a number; the text of one that JSON has not, as `nan`; the name of an enum's member, a "
        "dtype or a device; a string only if `values=all`), `len`, `bits` (of an integer that is "
        "too long to be written), `hash` (of a string: 16 bits, equal for equal strings of a run), "
        "`dtype`, `shape` and `device` (absent: cpu) of a tensor, and `unsettled`: true where a "
        "pending or failed call may have written to the tensor whose number it is",
        default_factory=dict,
    )
    left_out: int = _doc("names that were not read, or found no room", default=0)
    moved: bool | None = _opt("true where the thread ran on in it while it was read")


@dataclass(slots=True, kw_only=True)
class KernelWait:
    """What the kernel reports about a thread or a child process of a rank.

    A field is absent if the system does not report it, as in some sandboxes.
    """

    thread: str | None = _opt("the thread, as `stacks` names it; absent: it is a child process")
    pid: int | None = _opt("number of the child process")
    name: str | None = _opt("what the child process is called")
    state: str | None = _opt("state of the child: `R` runs, `S` sleeps, `D`, `T`, `Z` has ended")
    call: str | None = _opt(
        "system call that it is in, as `flock`, or its number; `running`: in none; `page fault`"
    )
    wchan: str | None = _opt("function of the kernel that it sleeps in")
    file: str | None = _opt("path that the call is about, or `pipe:[inode]`, `socket:[inode]`")
    peer: str | None = _opt("address and port that the socket is connected to")
    others: list[int] | None = _opt(
        "processes that hold the other end of the pipe, this one left out; empty: there is none"
    )
    child: int | None = _opt("process that it waits for")
    lock: bool | None = _opt("true where it looks for the lock of `file` again and again")
    holder: int | None = _opt("process that holds the lock of `file`")


@dataclass(slots=True, kw_only=True)
class Record:
    """The fields of every line."""

    kind: ClassVar[str]
    t: int = _doc("when the line was written, ns of the monotonic clock", default=0)


@dataclass(slots=True, kw_only=True)
class Header(Record):
    """The first line of every segment: the process and its settings."""

    kind: ClassVar[str] = "header"
    format: int = _doc("version of the line format")
    run: str | None = _opt("run id, the same on every rank; absent in a provisional file")
    rank: int | None = _opt("global rank; in a provisional file what the launcher says, if it does")
    world_size: int | None = _opt("ranks in the job")
    local_rank: int | None = _opt("rank on this host, from LOCAL_RANK")
    segment: int = _doc("ordinal of this segment, from 0", default=0)
    host: str = _doc("host name")
    pid: int = _doc("process id")
    wall: int = _doc("wall clock at `t`, ns since 1970")
    cwd: str = _doc("working directory", default="")
    versions: dict[str, str] = _doc("of collectrace, python and torch", default_factory=dict)
    argv: list[str] = _doc("command line", default_factory=list)
    env: dict[str, str] = _doc("variables that change how collectives behave", default_factory=dict)
    heartbeat: float = _doc("seconds between `alive` records; 0: there are none", default=5.0)
    stall_after: float = _doc("seconds after which a pending call stalls", default=60.0)
    keep_runs: int | None = _opt("runs that the folder may hold; 0: all are kept")
    code: str | None = _opt("what the code that records calls is written in: `c` or `python`")
    inode: int | None = _opt("number of this file on its file system; a copy has another")
    spool: str | None = _opt("path on `host` that this file is moved from; absent: it is not moved")
    targets: list[str] = _doc("patched functions", default_factory=list)
    omitted: list[str] | None = _opt(
        "parts that were left out (`omit`) or taken out (`redact`): `arguments`, `paths`, "
        "`source`, `values`"
    )


@dataclass(slots=True, kw_only=True)
class Removed(Record):
    """Older runs that rank 0 removed from the folder as this one began, to keep `keep_runs`."""

    kind: ClassVar[str] = "removed"
    runs: list[str] = _doc("their ids", default_factory=list)


@dataclass(slots=True, kw_only=True)
class Unfamiliar(Record):
    """Parts of torch that the tracer does not know; absent if it knows all. The latest counts."""

    kind: ClassVar[str] = "unfamiliar"
    ops: list[str] = _doc(
        "operators of torch's namespace c10d of whose arguments the meaning is guessed",
        default_factory=list,
    )
    targets: list[str] = _doc(
        "functions that were to be patched, and are not where they were", default_factory=list
    )


@dataclass(slots=True, kw_only=True)
class Blind(Record):
    """Something in this process that communicates without torch's dispatcher, unrecorded."""

    kind: ClassVar[str] = "blind"
    name: str = _doc("what it is called")
    how: str = _doc("how it was noticed, as in `deep_ep was loaded`", default="was loaded")
    what: str = _doc("what of it is not recorded", default="")


@dataclass(slots=True, kw_only=True)
class Fault(Record):
    """The tracer itself failed; only the first failure of each kind is recorded."""

    kind: ClassVar[str] = "fault"
    doing: str = _doc("what the tracer was doing, as in `recording all_reduce`")
    error: str = _doc("type of the exception")
    message: str = _doc("text of the exception", default="")
    since: int | None = _opt(
        "from when on the record may lack calls, or what is told of them; absent: it lacks none"
    )


@dataclass(slots=True, kw_only=True)
class Imported(Record):
    """The trace of another tool that this file was made from."""

    kind: ClassVar[str] = "imported"
    tool: str = _doc("the tool that wrote the trace, such as `PyTorch Flight Recorder`")
    version: str = _doc("version of its format", default="")
    file: str = _doc("name of the file it was", default="")
    open: str = _doc("what such a trace lacks", default="")
    lost: bool | None = _opt("true where it holds the latest calls only, and not the first")
    written: bool | None = _opt(
        "true where it is known when the file was written, by its own time or by its calls"
    )


@dataclass(slots=True, kw_only=True)
class Group(Record):
    """A process group: requested before its creation, ready after it, or destroyed."""

    kind: ClassVar[str] = "group"
    phase: str = _doc("`asked`, `ready` or `destroyed`")
    group: str = _doc("c10d name; `name@n` for its n-th use in the process, from the second on")
    description: str = _doc("torch's group_desc", default="")
    backend: str = _doc("backend per device type, such as `cpu:gloo,cuda:nccl`", default="")
    ranks: Sequence[int] = _doc(
        "global ranks of the members, in group order; empty where `ranges` tells them",
        default_factory=list,
    )
    ranges: list[list[int]] | None = _opt(
        f"the members of a group of more than {LISTED}, unless most ranges are short: of each "
        "`[first, last, step]`, in group order; so the record of a large group stays small"
    )
    member: bool = _doc("whether this rank is one of them", default=True)
    ordinal: int = _doc("n-th group this process asked for, from 0", default=0)
    site: str | None = _opt("`path:line` that asked for it")
    via: str | None = _opt("`path:line` of the library between, if any")
    stack: int | None = _opt(
        "number of the `stack` record with the code that requested it; absent for the default group"
    )
    device_id: str | None = _opt("the device it was bound to when it was asked for, as `cuda:0`")
    start_seq: int | None = _opt("the backend's sequence number where tracing began late")


@dataclass(slots=True, kw_only=True)
class Call(Record):
    """One collective or point-to-point op, written before it is issued."""

    kind: ClassVar[str] = "call"
    seq: int = _doc(
        "from 1, per group and device type; point-to-point: per source, destination, tag"
    )
    group: str = _doc("name of the process group, as in its `group` records")
    device: str = _doc("device type of the tensors")
    op: str = _doc("public name of the operation, such as `all_reduce`")
    device_index: int | None = _opt("which device of its type; absent for the CPU")
    cuda_stream: int | None = _opt(
        "id of the CUDA stream that was current, where it was not the default one: of the first "
        "call from this line on such tensors"
    )
    dtype: str | list[str] | None = _opt("of the tensors; a list where they differ")
    shape: Shape | None = _opt("of what is sent (or received, for `recv`)")
    out_shape: Shape | None = _opt("of what is received, where that is a separate tensor")
    reduce_op: str | None = _opt(
        "`SUM`, `AVG`, `PRODUCT`, `MIN`, `MAX`, `BAND`, `BOR`, `BXOR`, ..."
    )
    root: int | None = _opt("source or destination of a rooted collective, global rank")
    peer: int | None = _opt("other side of a point-to-point op, global rank; -1: any source")
    tag: int | None = _opt("tag of a point-to-point op")
    splits: list[list[int]] | None = _opt(
        "all_to_all: elements sent to, and expected from, each rank"
    )
    async_: bool | None = _opt("true where the caller gets a Work to wait for")
    void: bool | None = _opt(
        "true where the call could not be described; only seq can be relied on"
    )
    role: str = _doc("who issued it: `user`, or a framework's part", default="user")
    part: str | None = _opt(
        "which part of the framework's model or loop: a module's name, a metric, a stage"
    )
    model: int | None = _opt(
        "which DDP model or ZeRO optimizer of its group, from 1; absent: the first, or of a "
        "gradient bucket: the only one, or not known"
    )
    api: str | None = _opt("function of torch that was called; absent where it is `op`")
    site: str | None = _opt("`path:line` of the innermost frame of the user's own code")
    via: str | None = _opt("`path:line` of the library frame between, if any")
    thread: str | None = _opt("thread name, if not the main one; `native-...`: none of Python's")
    stack: int | None = _opt("number of the `stack` record with its callers")
    iteration: int | None = _opt(
        "ordinal of the step of the job it belongs to, from 1: of the latest DDP forward, or of "
        "what the latest `unit` record says; absent: none is known yet"
    )
    digest: int | None = _opt(
        "prefix digest of what is fatal on the wire; absent for point-to-point"
    )
    program: int | None = _opt("prefix digest of that plus the pairing class")
    pairs: int | None = _opt("prefix digest of all_to_all pairs; sums to zero over the ranks")


@dataclass(slots=True, kw_only=True)
class Stack(Record):
    """The user's functions on the call stack; written before the first call with that stack."""

    kind: ClassVar[str] = "stack"
    stack: int = _doc("its number in this process, from 1; a later one with it is the same")
    frames: list[str] = _doc("`path:line function` of the user's frames, innermost first")
    path: list[str] = _doc(
        "functions of libraries between the innermost frame and torch, outermost first",
        default_factory=list,
    )
    first_lines: list[int] | None = _opt(
        "per frame the line at which its function begins, decorators included"
    )
    libraries: list[str] | None = _opt(
        "`inside path:line function` of the frames of libraries, innermost first, at most 24; "
        "`inside`: how many of `frames` lie further inside; torch and Python are none"
    )


@dataclass(slots=True, kw_only=True)
class SourceFile(Record):
    """A file of the user's code with frames of a stack, as this process has read it.

    Its text is ``sources/<sha256>.py`` beside the rank file, once for all ranks of a run that have
    it, unless ``sources=lines`` leaves it out.
    """

    kind: ClassVar[str] = "source_file"
    path: str = _doc("as in `path:line`")
    sha256: str = _doc("of its bytes, in hexadecimal digits; of a notebook's cell, as UTF-8")
    size: int = _doc("bytes", default=0)


@dataclass(slots=True, kw_only=True)
class Source(Record):
    """A line of the user's code that makes calls, if the text of its file is not recorded.

    With ``sources=lines`` it is the line alone. Older tracers wrote the statements around it, too.
    """

    kind: ClassVar[str] = "source"
    site: str = _doc("`path:line`")
    lines: list[str] = _doc("`number text`: the enclosing statements' first lines, itself last")
    ways: list[str] | None = _opt(
        "`number leaves text`: first lines of statements of its function that may lead past it "
        "without enclosing it, or by an exception (`except`, `with suppress`); `leaves`: "
        "`return`, `continue`, `break`, `raise`, or `pass` where the program goes on behind it"
    )
    given: list[str] | None = _opt(
        "`head number text`: of a condition among these, at line `head`, the assignments above "
        "that its names were given by, the nearest first"
    )


@dataclass(slots=True, kw_only=True)
class Done(Record):
    """A watermark: every call up to ``seq`` of a stream or channel has completed."""

    kind: ClassVar[str] = "done"
    group: str = _doc("group of the stream")
    device: str = _doc("device type of the stream")
    seq: int = _doc("the latest call known to be complete")
    peer: int | None = _opt("point-to-point: the other side")
    tag: int | None = _opt("point-to-point: the tag")
    op: str | None = _opt("point-to-point: `send` or `recv`")
    failed: bool | None = _opt("true where this one call raised; it is not a watermark then")
    refused: bool | None = _opt(
        "true where it never reached a peer: the next call bears its number again"
    )
    error: str | None = _opt("type and text of what it raised")


@dataclass(slots=True, kw_only=True)
class Answer(Record):
    """The sender of a message that a receive from any source got; absent if it is not known."""

    kind: ClassVar[str] = "answer"
    group: str = _doc("group of the receive")
    device: str = _doc("device type of the receive")
    seq: int = _doc("sequence number of the receive")
    tag: int = _doc("tag of the receive", default=0)
    source: int = _doc("global rank of the sender")


DDP_FORWARD: Final = "ddp.forward"
STEP: Final = "collectrace.step"
OPTIMIZER_STEP: Final = "optimizer.step"
UNITS: Final = (DDP_FORWARD, STEP, OPTIMIZER_STEP)
"""What counts as a step of the job; if there are several, the first of these."""


@dataclass(slots=True, kw_only=True)
class Unit(Record):
    """What ``iteration`` counts from here on, if that changes; at first DDP's forwards."""

    kind: ClassVar[str] = "unit"
    of: str = _doc(
        "`ddp.forward`; `collectrace.step`, which the script calls as each step begins; or "
        "`optimizer.step`: the steps made, and 1, of the optimizer that has made most"
    )


@dataclass(slots=True, kw_only=True)
class Join(Record):
    """DDP's ``join()`` context: entered, out of inputs (joined), left."""

    kind: ClassVar[str] = "join"
    phase: str = _doc("`entered`, `joined` or `left`")
    group: str | None = _opt("group of the joinables")
    joinables: list[str] = _doc("class names, in order", default_factory=list)
    throws: bool = _doc("throw_on_early_termination", default=False)
    iteration: int | None = _opt("DDP forwards so far")
    rounds: list[int] | None = _opt(
        "times that its first joinable gave notice of an input, by the line that called it"
    )
    site: str | None = _opt("`path:line`")


@dataclass(slots=True, kw_only=True)
class Batch(Record):
    """A DataLoader fetch, or the end of one pass over it."""

    kind: ClassVar[str] = "batch"
    loader: int = _doc("ordinal of the DataLoader in the process, from 0")
    batch: int = _doc("batches fetched in this pass; at its end the total")
    wait: int = _doc("ns spent waiting for it")
    end: bool | None = _opt("true where the pass is over")
    length: int | None = _opt("len() of the loader, at the first batch, if it has one")
    site: str | None = _opt("`path:line`, at the first batch of a pass and at its end")


@dataclass(slots=True, kw_only=True)
class Epoch(Record):
    """``DistributedSampler.set_epoch``, or a pass over a shuffling sampler that got none."""

    kind: ClassVar[str] = "epoch"
    epoch: int = _doc("what the sampler now holds")
    set: bool = _doc("true: set_epoch was called; false: a pass began", default=True)
    shuffle: bool | None = _opt("whether the sampler shuffles")
    sampler: int = _doc("ordinal of the sampler in the process, from 0", default=0)
    site: str | None = _opt("`path:line`")


@dataclass(slots=True, kw_only=True)
class Sync(Record):
    """A device synchronise, and how long it took."""

    kind: ClassVar[str] = "sync"
    api: str = _doc("function that was called")
    wait: int = _doc("ns it took")
    site: str | None = _opt("`path:line`")


@dataclass(slots=True, kw_only=True)
class NoSync(Record):
    """DDP's ``no_sync()``: entered or left; both, for a forward with the flag of it set by hand."""

    kind: ClassVar[str] = "no_sync"
    phase: str = _doc("`entered` or `left`")
    model: int | None = _opt("which DDP model of its group, from 1; absent: the first")
    site: str | None = _opt("`path:line`")


@dataclass(slots=True, kw_only=True)
class Unwaited(Record):
    """The Work of an asynchronous call was freed, and nobody had waited for it."""

    kind: ClassVar[str] = "unwaited"
    group: str = _doc("group of the call")
    device: str = _doc("device type of the call")
    seq: int = _doc("sequence number of the first such call since the last record")
    op: str = _doc("op of the call")
    peer: int | None = _opt("peer of a point-to-point op")
    tag: int | None = _opt("tag of a point-to-point op")
    count: int = _doc("such calls from this line since the last record", default=1)
    touched: bool | None = _opt("true: it was waited for, but its tensor was written to before")
    site: str | None = _opt("`path:line`")


@dataclass(slots=True, kw_only=True)
class Outside(Record):
    """A call on a group that the rank is not in: torch warned, and issued nothing.

    Only the first from each line is recorded.
    """

    kind: ClassVar[str] = "outside"
    op: str = _doc("the public function")
    site: str | None = _opt("`path:line`")
    thread: str | None = _opt("thread name, if not the main one")


HANDLED: Final = "handled"
"""The source of an exception that no function of torch raised: see :class:`Raised`."""

THREAD: Final = "thread"
"""The source of an exception that ended a thread with calls."""
OTHER_THREAD: Final = "other thread"
"""The source of an exception that ended a thread without calls: see :class:`Raised`."""


@dataclass(slots=True, kw_only=True)
class Raised(Record):
    """An exception that left a function of torch's, or during which the user's code made a call.

    If calls follow, the program caught it, or is about to end because of it.
    """

    kind: ClassVar[str] = "raised"
    what: str = _doc(
        "what raised: the public function, `forward` of DDP, `backward`, `batch`; `thread`: it "
        "ended one that had issued calls, `other thread`: one that had not; `handled`: the user's "
        "code did, and issued the next call while it was handled"
    )
    error: str = _doc("type of the exception")
    message: str = _doc("text of the exception", default="")
    site: str | None = _opt("`path:line` in the user's code that raised it")
    thread: str | None = _opt("thread name, if not the main one")


@dataclass(slots=True, kw_only=True)
class Alive(Record):
    """A heartbeat."""

    kind: ClassVar[str] = "alive"
    in_: list[Activity] = _doc("per thread what it is in; empty: nothing", default_factory=list)


@dataclass(slots=True, kw_only=True)
class Stall(Record):
    """A call has been pending for longer than ``stall_after``."""

    kind: ClassVar[str] = "stall"
    in_: list[Activity] = _doc("per thread what it is in", default_factory=list)
    pending: int = _doc("how long, ns", default=0)
    stacks: dict[str, list[str]] = _doc(
        "Python stack per thread, innermost last", default_factory=dict
    )
    gil_held: bool | None = _opt("true where a call into C held the GIL, so that no Python ran")
    waits: list[KernelWait] | None = _opt("per thread what the kernel says that it is in")
    children: list[KernelWait] | None = _opt("per child process what the kernel says of it")


STALLED: Final = "stall"
"""Why values were read: the rank stalled."""
ENDED: Final = "exception"
"""An exception ended the thread."""
INTERRUPTED: Final = "interrupt"
"""KeyboardInterrupt ended the thread."""
ASKED: Final = "asked"
"""A diagnosis is being made while the job runs."""


@dataclass(slots=True, kw_only=True)
class Values(Record):
    """Values of the variables of a thread's functions, read without running any of their code.

    The values are those of this moment, which is later than the call or the condition before it.
    """

    kind: ClassVar[str] = "values"
    reason: str = _doc("`stall`, `exception`, `interrupt`, or `asked`: for a diagnosis")
    thread: str = _doc("thread name, `MainThread` for the main one")
    functions: list[FrameValues] = _doc(
        "the user's functions that it was in, innermost first", default_factory=list
    )
    functions_left_out: int = _doc("further ones, as far as they were seen", default=0)
    threads_left_out: int = _doc("threads that were not read at that moment", default=0)
    iteration: int | None = _opt("ordinal of the step in progress, as in a `call` record")
    ns: int = _doc("time it took to read them, ns", default=0)


@dataclass(slots=True, kw_only=True)
class Checkpoint(Record):
    """The position of every stream, so that a reader can start in the middle of a file."""

    kind: ClassVar[str] = "checkpoint"
    streams: list[list[Any]] = _doc(
        "per stream: group, device, seq, digest, program, pairs (null: no all_to_all so far)",
        default_factory=list,
    )
    channels: list[list[Any]] = _doc(
        "per point-to-point channel: group, device, source, destination, tag, seq",
        default_factory=list,
    )
    known_stacks: int = _doc("`stack` records written so far", default=0)
    dropped: int = _doc("records lost so far because writing failed", default=0)
    failures: int = _doc("internal failures of the tracer so far", default=0)
    rotated: int = _doc("segments deleted so far to stay under max_bytes", default=0)


@dataclass(slots=True, kw_only=True)
class Exit(Record):
    """The end of the process, as far as it could record it."""

    kind: ClassVar[str] = "exit"
    reason: str = _doc("`finished`, `exception`, `signal` or `disabled`")
    code: int | None = _opt("exit status of sys.exit, or the signal's number")
    error: str | None = _opt("type of the exception")
    message: str | None = _opt("text of the exception")
    site: str | None = _opt("`path:line` in the user's code that raised it, or called sys.exit")
    through: list[str] = _doc(
        "`path:line` of the user's lines around that, through which it came, the nearest first",
        default_factory=list,
    )
    causes: list[str] = _doc(
        "`Type: text` of what it was raised from, or while that was handled, the nearest first",
        default_factory=list,
    )
    frames: list[str] | None = _opt(
        "KeyboardInterrupt: `path:line function` of the main thread, innermost last, as in a stall"
    )
    parameters: list[str] | None = _opt(
        "names of the parameters without a gradient, if DDP's exception has their indices"
    )
    in_: list[Activity] = _doc("per thread what it was in", default_factory=list)
    calls: int = _doc("calls recorded", default=0)
    ns: int = _doc("time the tracer took, ns", default=0)
    bytes: int = _doc("bytes written", default=0)
    dropped: int = _doc("records lost because writing failed", default=0)
    failures: int = _doc("internal failures of the tracer", default=0)

    @property
    def is_interrupt(self) -> bool:
        """Return whether SIGINT ended the rank: Ctrl-C or a launcher, not its own failure."""
        return self.error == KeyboardInterrupt.__name__

    @property
    def is_regular(self) -> bool:
        """Return whether the program finished with a successful exit code."""
        return self.reason == "finished" and not self.code


KINDS: Final[dict[str, type[Record]]] = {
    cls.kind: cls
    for cls in (
        Header, Imported, Unfamiliar, Blind, Fault, Group, Stack, SourceFile, Source, Unit, Call,
        Done, Answer, Join, NoSync, Batch, Epoch, Sync, Unwaited, Outside, Raised, Removed, Alive,
        Stall, Values, Checkpoint, Exit,
    )
}  # fmt: skip


def backend_for(backend: str, device: str) -> str:
    """Return the backend that serves a device type.

    ``backend`` is what a group record says: ``gloo``, or per device ``cpu:gloo,cuda:nccl``.
    """
    for part in backend.split(","):
        served, colon, name = part.partition(":")
        if not colon:
            return part.strip()
        if served.strip() == device:
            return name.strip()
    return ""


NCCL: Final = frozenset({"nccl", "nccl2", "nccl-legacy", "ncclx"})
"""Names of the backends that issue everything on NCCL.

What is taken as given of all of them was read in sources of torch; no GPU was at hand. ``nccl`` is
from torch 2.15 on ``nccl2``, unless TORCH_DIST_USE_NCCL2=0 (nccl2/ProcessGroupNCCLBackend.cpp,
ProcessGroupNCCL.cpp and WorkNCCL.cpp in torch/csrc/distributed/c10d); before it, and as
``nccl-legacy``, ProcessGroupNCCL.cpp (collective, pointToPoint, send, recv; torch up to 2.12).
torchcomms' ``ncclx`` was not read: by its comments nccl2 is a port of that.

- A barrier is an all-reduce of one float32, SUM, on the group's communicator (``barrierImpl``).
- The collectives of one group complete in the order of issue, though a synchronous one runs on the
  caller's CUDA stream and an asynchronous one on the group's own (``getOperationStream``): NCCL
  makes the kernels of a communicator wait for each other (its src/enqueue.cc, ncclLaunchPrepare).
- The tag of a message is ignored (``send``, ``recv``): messages from one rank to another meet in
  the order of issue.
"""

DUMPS_ALONE: Final = frozenset({"nccl2", "nccl2-lazy", "nccl-lazy"})
"""Backends of which a rank dumps its Flight Recorder only if it notices a failure itself.

FlightRecorderHook.cpp (``onAbort``) and nccl2/ProcessGroupNCCLUtils.cpp (``checkWorkQueue``) in
torch/csrc/distributed/c10d, torch 2.15. The older ProcessGroupNCCL.cpp asks all ranks for a dump
(``broadcastDumpSignal``) when a call of one has timed out.
"""

_PARTS: Final = frozenset({"in_", "functions", "waits", "children"})
"""Fields that hold objects of another class."""


def json_name(name: str) -> str:
    """Return the name of a field in a line: keywords of Python have an underscore here only."""
    return name.rstrip("_")


def to_dict(record: Record | Activity | FrameValues | KernelWait) -> dict[str, Any]:
    """Return a record as a JSON object, ``kind`` first, without absent fields."""
    out: dict[str, Any] = {}
    if isinstance(record, Record):
        out["kind"] = record.kind
    for f in fields(record):
        value = getattr(record, f.name)
        if value is None:
            continue
        if f.name in _PARTS:
            value = [to_dict(part) for part in value]
        out[json_name(f.name)] = value
    return out


def encode(record: Record) -> bytes:
    """Return one line of a rank file, with its newline."""
    line = to_dict(record)
    if isinstance(record, Group):
        line |= _members_of(record)
    try:
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # The name of a file is not UTF-8: its invalid bytes become "?".
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        return text.encode(errors="replace") + b"\n"


def _members_of(group: Group) -> dict[str, Any]:
    """Return the members of a group as a line lists them; if there are many, as ranges."""
    if len(group.ranks) > LISTED:
        ranges = members.ranges(group.ranks)
        if members.NUMBERS * len(ranges) < len(group.ranks):
            return {"ranks": [], "ranges": ranges}
    return {"ranks": list(group.ranks)}


def decode(line: bytes) -> Record | None:
    """Return the record in a line; None: a kind that this version does not know.

    Raises:
        DamagedRecord: the line is torn or not JSON, or a field is missing or has a wrong type.

    """
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError as problem:
        raise DamagedRecord(str(problem)) from None
    return from_dict(data)


def readable(line: bytes) -> Record | None:
    """Return the record in a line; None if it is damaged, or of an unknown kind."""
    try:
        return decode(line)
    except (DamagedRecord, RecursionError):
        return None


def from_dict(data: Any) -> Record | None:
    """Return the record in a parsed line, as :func:`decode` does."""
    if not isinstance(data, dict):
        raise DamagedRecord("not an object")
    kind = data.get("kind")
    if not isinstance(kind, str):
        raise DamagedRecord("no kind")
    cls = KINDS.get(kind)
    return None if cls is None else _build(cls, data)


_LARGEST: Final = 1e15
"""Limit of numbers of seconds, so that results computed from them stay finite."""


def _build(cls: type[Any], data: dict[str, Any]) -> Any:
    values: dict[str, Any] = {}
    for name, key, accepted, required in _PLANS[cls]:
        value = data.get(key)
        if value is None:
            if required:
                raise DamagedRecord(f"{cls.__name__.lower()} without {key}")
            continue
        # isinstance takes bool for int, but it is not a number here.
        if not isinstance(value, accepted) or (value.__class__ is bool and bool not in accepted):
            raise DamagedRecord(f"{key} is {type(value).__name__}")
        if value.__class__ is float and not abs(value) < _LARGEST:
            raise DamagedRecord(f"{key} is {value}")
        check = _DEEP.get(key)
        if check is not None:
            value = check(value)
        values[name] = value
    if cls is Group and "ranges" in values:
        # Whoever reads a record finds its members in `ranks`.
        values["ranks"] = _of_ranges(values.pop("ranges"))
    return cls(**values)


def _of_ranges(ranges: list[Any]) -> Members:
    try:
        return members.of_ranges(tuple((first, last, step) for first, last, step in ranges))
    except (ValueError, OverflowError):
        raise DamagedRecord("the ranges of a group are not ranks") from None


def _parts(cls: type[Any]) -> Callable[[list[Any]], list[Any]]:
    def build(value: list[Any]) -> list[Any]:
        if not all(isinstance(item, dict) for item in value):
            raise DamagedRecord(f"a list of {cls.__name__} holds something that is not an object")
        return [_build(cls, item) for item in value]

    return build


def _values(value: dict[str, Any]) -> dict[str, Any]:
    for item in value.values():
        if item.__class__ in _NUMBERS:
            continue
        if item.__class__ is not dict or item.get("type").__class__ is not str:
            raise DamagedRecord("a value is not a number and has no type")
        shape = item.get("shape", [])
        is_plain = all(item[k].__class__ in (*_NUMBERS, str) for k in item if k != "shape")
        if not is_plain or shape.__class__ is not list:
            raise DamagedRecord("a value has parts that are neither numbers nor text")
        _ranks(shape)
    return value


_NUMBERS: Final = (bool, int, float, types.NoneType)


def _ints(value: list[Any]) -> list[Any]:
    for item in value:
        if item.__class__ is not int and not (
            item.__class__ is list and all(i.__class__ is int for i in item)
        ):
            raise DamagedRecord("a list of numbers holds something else")
    return value


def _ranks(value: list[Any]) -> list[Any]:
    if not {int}.issuperset(map(type, value)):
        raise DamagedRecord("a list of ranks holds something else")
    return value


def _strings(value: Any) -> Any:
    if value.__class__ is list and not all(item.__class__ is str for item in value):
        raise DamagedRecord("a list of names holds something else")
    return value


def _string_map(value: dict[str, Any]) -> dict[str, Any]:
    if not all(item.__class__ is str for item in value.values()):
        raise DamagedRecord("a map of names holds something else")
    return value


def _stacks(value: dict[str, Any]) -> dict[str, Any]:
    for stack in value.values():
        if stack.__class__ is not list:
            raise DamagedRecord("a stack is not a list")
        _strings(stack)
    return value


def _rows(value: list[Any]) -> list[Any]:
    if not all(item.__class__ is list for item in value):
        raise DamagedRecord("a row is not a list")
    return value


def _rows_of_ints(value: list[Any]) -> list[Any]:
    return _ints(_rows(value))


def _splits(value: list[Any]) -> list[Any]:
    if len(value) != 2:
        raise DamagedRecord("splits are not what is sent and what is expected")
    return _rows_of_ints(value)


_DEEP: Final[dict[str, Any]] = {
    "in": _parts(Activity), "functions": _parts(FrameValues), "values": _values,
    "waits": _parts(KernelWait), "children": _parts(KernelWait), "others": _ranks,
    "shape": _ints, "out_shape": _ints, "splits": _splits, "ranks": _ranks,
    "ranges": _rows_of_ints,
    "rounds": _ranks, "first_lines": _ranks,
    "dtype": _strings, "frames": _strings, "libraries": _strings, "path": _strings,
    "lines": _strings,
    "ways": _strings, "given": _strings, "argv": _strings, "causes": _strings, "through": _strings,
    "parameters": _strings, "targets": _strings, "omitted": _strings, "ops": _strings,
    "runs": _strings, "joinables": _strings,
    "env": _string_map, "versions": _string_map, "stacks": _stacks,
    "streams": _rows, "channels": _rows,
}  # fmt: skip
"""Fields with checked contents, because a line may come from anywhere."""


def runtime_types(hint: Any) -> tuple[type, ...]:
    """Return the classes that a JSON value may have for an annotation, without None."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return tuple(t for arm in typing.get_args(hint) for t in runtime_types(arm))
    if hint is type(None):
        return ()
    plain = typing.get_origin(hint) or hint
    if plain is Sequence:
        return (list,)
    return (int, float) if plain is float else (plain,)


def is_required(f: Field[Any]) -> bool:
    """Return whether a line without this field is damaged."""
    return f.default is MISSING and f.default_factory is MISSING


def _plan(cls: type[Any]) -> Iterator[tuple[str, str, tuple[type, ...], bool]]:
    hints = typing.get_type_hints(cls)
    for f in fields(cls):
        yield f.name, json_name(f.name), runtime_types(hints[f.name]), is_required(f)


_PLANS: Final = {
    cls: tuple(_plan(cls)) for cls in (*KINDS.values(), Activity, FrameValues, KernelWait)
}
