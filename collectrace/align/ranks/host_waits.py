"""Recognise what a rank waits for outside collectives: a lock, a queue, a child process, a file.

There is one table. Each row has the name of a wait, and how to end it. Frames, system calls, or
calls in the user's line identify it. The first matching row wins. The facts are those of the last
stall: Python frames, and the kernel's state of the thread. If the kernel reports nothing, as in
some sandboxes, the frames and the source decide.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, NamedTuple

from collectrace import dumps, words
from collectrace.align.ranks.last_stall import LastStall, name, site, text, thread_at_work
from collectrace.align.reading.evidence import RankLog, RunEvidence
from collectrace.dumps import MAIN
from collectrace.records import KernelWait, Stall

_MOST: Final = 3
"""Processes or threads that are named one by one."""


@dataclass(frozen=True, slots=True)
class HostWait:
    """What a rank waits for."""

    row: Row
    what: str
    """Continues "waits for": ``file lock /data/a.lock, held by process 47 (rank 0)``."""
    t: int
    """When it was seen, on the rank's own clock, ns."""
    holder: int | None = None
    """The rank that alone can end it, if that is known."""
    thread: tuple[str, ...] = ()
    """The frames of the thread of this process that holds the lock, innermost first."""


class Row(NamedTuple):
    """A kind of wait."""

    name: str
    noun: str
    did: str
    """Continues "rank 1", in a headline."""
    say: Callable[[LastStall], str]
    fix: str
    """``{who}`` is replaced by the ranks."""
    frames: re.Pattern[str] | None = None
    """Matches one of the frames below the user's innermost line."""
    calls: frozenset[str] = frozenset()
    """System calls that are enough."""
    functions: frozenset[str] = frozenset()
    """Names of C functions, which have no frame, in the user's line. They are enough if the kernel
    reports nothing."""
    also: Callable[[LastStall], bool] = lambda _: False
    """Another condition that is enough."""

    def fits(self, seen: LastStall) -> bool:
        """Return whether a stall is of this kind."""
        if self.frames is not None and any(map(self.frames.search, seen.inner)):
            return True
        if seen.kernel.call is None and self.functions & seen.called:
            return True
        return seen.kernel.call in self.calls or self.also(seen)


def find(log: RankLog, evidence: RunEvidence) -> HostWait | None:
    """Return what a rank waited for in its last stall, or at Ctrl-C; None if it went on since."""
    stall, last, leaving = log.stall, log.last_call, log.exit
    if stall is not None and (last is None or last.t <= stall.t):
        return _wait_in(stall, log, evidence)
    if leaving is None or not leaving.is_interrupt or leaving.in_ or not leaving.frames:
        return None
    # It had not stalled for long enough to be recorded.
    return _wait_in(Stall(t=leaving.t, stacks={MAIN: list(leaving.frames)}), log, evidence)


def seen_in(log: RankLog, evidence: RunEvidence) -> HostWait | None:
    """Return what a rank waited for as it stalled last; None if that is not known."""
    return _wait_in(log.stall, log, evidence) if log.stall is not None else None


def _wait_in(stall: Stall, log: RankLog, evidence: RunEvidence) -> HostWait | None:
    thread = thread_at_work(stall.stacks)
    kernel = next((one for one in stall.waits or () if one.thread == thread), KernelWait())
    seen = LastStall(log, stall, evidence, thread, kernel)
    row = next((row for row in ROWS if row.fits(seen)), None)
    if row is None:
        return None
    others = kernel.others or ()
    pid = kernel.holder or kernel.child or (others[0] if len(others) == 1 else None)
    holder = seen.rank_of(pid) if pid is not None and pid != log.header.pid else None
    holding = next((tuple(reversed(frames)) for _, frames in _holders(seen)), ())
    return HostWait(row, row.say(seen), stall.t, holder, holding)


def place(log: RankLog) -> str | None:
    """Return the ``path:line`` of a rank in its last stall."""
    stacks = log.stall.stacks if log.stall is not None else {}
    frames = stacks.get(thread_at_work(stacks), ())
    return site((dumps.own(frames) or frames)[-1]) if frames else None


# -- in words ------------------------------------------------------------------------------------


def _gil(seen: LastStall) -> str:
    return f"{_call(seen, 'a call into C')}, which holds the GIL"


def _file_lock(seen: LastStall) -> str:
    file, holder = seen.kernel.file, seen.kernel.holder
    named = f"file lock {file}" if file else "a file lock"
    if holder is not None:
        return f"{named}, held by {seen.process(holder)}"
    if any("/file_baton.py:" in frame for frame in seen.inner):
        return f"{named}, which lasts until that file is removed"
    return f"{named}, whose holder is not known" if seen.kernel.call is not None else named


def _worker(seen: LastStall) -> str:
    workers = [one for one in seen.stall.children or () if one.name in _WORKER_NAMES]
    told = [seen.child(one) for one in workers[:_MOST]]
    return f"a DataLoader worker: {'; '.join(told)}" if told else "a DataLoader worker"


_WORKER_NAMES: Final = ("pt_data_worker",)
"""torch's name of a worker's thread (2.6 and later, ``_utils/worker.py``)."""


def _store(seen: LastStall) -> str:
    made = next((one for one in seen.statements if name(one.func) in _STORE), None)
    key = f"key `{text(made.args[0])}` of the store" if made and made.args else "a key of the store"
    return f"{key} at {seen.kernel.peer}" if seen.kernel.peer else key


def _is_store(seen: LastStall) -> bool:
    made = next((one for one in seen.statements if name(one.func) in _STORE), None)
    if made is None or not isinstance(made.func, ast.Attribute):
        return False
    # No Python method with these names reads a socket without its own frame.
    return seen.kernel.peer is not None or name(made.func.value).lower().endswith("store")


_STORE: Final = frozenset({"get", "wait", "multi_get", "queue_pop", "compare_set"})


def _ray(_: LastStall) -> str:
    return "a result of Ray"


def _queue(seen: LastStall) -> str:
    others = seen.kernel.others
    if others is None:
        return "another process, by a queue or a pipe"
    if not others:
        return "a queue or a pipe whose other end no other process has open"
    known = seen.children
    told = [seen.child(known[pid]) if pid in known else seen.process(pid) for pid in others[:_MOST]]
    return f"a queue or a pipe whose other end is open in {'; '.join(told)}"


def _child(seen: LastStall) -> str:
    known = seen.children
    wanted = [seen.kernel.child] if seen.kernel.child else seen.kernel.others or ()
    those = [known[pid] for pid in wanted if pid in known]
    if not wanted and len(known) == 1:
        those = list(known.values())
    return "; ".join(map(seen.child, those[:_MOST])) or "a child process"


def _lock(seen: LastStall) -> str:
    """Return the lock that a thread waits for, as code; empty if none is known."""
    return seen.entered or next(
        (text(one.func.value) for one in seen.statements
         if isinstance(one.func, ast.Attribute) and one.func.attr in _ACQUIRES), ""
    )  # fmt: skip


def _holds_it(seen: LastStall) -> bool:
    """Whether a thread waits for a lock that it holds itself."""
    lock = _lock(seen)
    return bool(lock) and seen.is_within(dumps.own(seen.frames), lock)


def _own_lock(seen: LastStall) -> str:
    return f"lock `{_lock(seen)}`, which this thread holds itself"


def _holders(seen: LastStall) -> list[tuple[str, list[str]]]:
    """Return the other threads that hold the lock that a thread waits for, with their frames."""
    lock = _lock(seen)
    return [one for one in seen.others() if lock and seen.is_within(one[1], lock)]


def _thread(seen: LastStall) -> str:
    lock = _lock(seen)
    named = f"lock `{lock}`" if lock else "another thread"
    others = list(seen.others())
    if holders := _holders(seen):
        return f"{named}, held by thread {_at(*holders[0])}"
    if others:
        return f"{named}; {'; '.join(f'thread {_at(*one)}' for one in others[:_MOST])}"
    if not seen.has_source or not seen.has_all_threads:
        return named
    return f"{named}, but no other thread runs code of the program"


def _tasks(seen: LastStall) -> str:
    others = [f"thread {_at(*one)}" for one in seen.others()]
    return "; ".join(["task_done() for each item that was put", *others[:_MOST]])


_ACQUIRES: Final = frozenset({"acquire", "wait", "join"})


def _is_lock(seen: LastStall) -> bool:
    if seen.entered or "acquire" in seen.called:
        return seen.kernel.call in (None, "futex")
    return seen.kernel.call == "futex" and bool(seen.line) and not seen.has_source


def _socket(seen: LastStall) -> str:
    return f"a connection to {seen.kernel.peer}" if seen.kernel.peer else "a connection"


def _is_socket(seen: LastStall) -> bool:
    return (seen.kernel.file or "").startswith("socket:")


def _sleep(seen: LastStall) -> str:
    if seen.polled:
        return f"`{seen.polled}` to become false: it sleeps in between"
    return f"the end of {_call(seen, 'a sleep')}"


def _file(seen: LastStall) -> str:
    call, file = seen.kernel.call or "", seen.kernel.file or ""
    does = next((does for start, does in _ACCESS.items() if call.startswith(start)), "access to")
    sleeps = seen.kernel.wchan or ""
    if sleeps == "wait_for_partner":
        return f"{does} FIFO {file}, whose other end nobody has open"
    if file:
        return f"{does} {'FIFO ' * ('pipe' in sleeps)}{file}"
    return f"a file, in {_call(seen, 'a library')}"


_ACCESS: Final = {
    "read": "a read of", "pread": "a read of", "write": "a write to", "pwrite": "a write to",
    "fsync": "a flush of", "fdatasync": "a flush of", "open": "the opening of",
    "page": "a page of a mapped file",
}  # fmt: skip
"""The access to a file, by the beginning of a system call's name."""


def _is_file(seen: LastStall) -> bool:
    return (seen.kernel.file or "").startswith("/") and not seen.kernel.lock


def _compile(seen: LastStall) -> str:
    child = _child(seen)
    return f"the compiler: {child}" if child != "a child process" else "the compiler"


# -- parts of it ---------------------------------------------------------------------------------


def _call(seen: LastStall, otherwise: str) -> str:
    """Return ``time.sleep(60) (train.py:9)``, otherwise the innermost library function."""
    if seen.statements:
        return text(seen.statements[-1])
    if not seen.inner:
        return otherwise
    file = PurePath(site(seen.inner[-1])).name.partition(":")[0]
    return f"{seen.inner[-1].rpartition(' ')[2]}() of {file}"


def _at(thread: str, frames: Sequence[str]) -> str:
    return f"{thread} at {words.site(site(frames[-1]))} ({frames[-1].rpartition(' ')[2]})"


# -- the table -----------------------------------------------------------------------------------

ROWS: Final = (
    Row(
        "gil", "a call into C", "was in a call into C that holds the GIL", _gil,
        "Release the GIL in that extension (Py_BEGIN_ALLOW_THREADS, pybind11's "
        "gil_scoped_release), or run it in a process of its own.",
        also=lambda seen: bool(seen.stall.gil_held),
    ),
    Row(
        "file_lock", "a file lock", "waited for a file lock", _file_lock,
        "Let no rank hold a file lock while it calls a collective. Take it with a limit: timeout= "
        "of filelock, LOCK_NB of fcntl. If no process holds it, remove the file.",
        re.compile(r"/filelock/|/file_baton\.py:|/portalocker/|/fasteners/"),
        frozenset({"flock", "fcntl"}), frozenset({"flock", "lockf"}),
    ),
    Row(
        "dataloader", "a DataLoader worker", "waited for a DataLoader worker", _worker,
        "If the worker waits for a lock, it was forked while a thread of its parent held one: use "
        'DataLoader(multiprocessing_context="spawn"). Else find out what it reads, and pass '
        "timeout=.",
        re.compile(r"/torch/utils/data/dataloader\.py:\d+ _try_get_data$"),
    ),
    Row(
        "compile", "the compiler", "compiled code", _compile,
        "Compile before the first collective, warm the cache on one rank (TORCHINDUCTOR_CACHE_DIR, "
        "TRITON_CACHE_DIR), or give init_process_group a timeout that covers it.",
        re.compile(
            r"/torch/_dynamo/(convert_frame|output_graph|symbolic_convert)\.py:"
            r"|/torch/_inductor/(compile_fx|codecache|async_compile|scheduler|graph"
            r"|select_algorithm|autotune_process|cpp_builder)\.py:"
            r"|triton_heuristics\.py:\d+ (benchmark|autotune|precompile)"
            r"|/triton/(compiler/|runtime/(autotuner|build)\.py:)|/torch/utils/cpp_extension\.py:"
        ),
    ),
    Row(
        "store", "a key of the store", "waited for a key of the store", _store,
        "Let a rank set the key on every path, also where it fails, and pass a timeout to the "
        "wait.",
        re.compile(r"/torch/distributed/(elastic/utils/store|rendezvous)\.py:"),
        also=_is_store,
    ),
    Row(
        "ray", "a result of Ray", "waited for a result of Ray", _ray,
        "Look at that task in `ray list tasks`, and pass a timeout to ray.get().",
        re.compile(r"/ray/(_private|util|actor|remote_function)"),
    ),
    Row(
        "queue", "a queue", "waited for another process", _queue,
        "Find out why the process at the other end gives nothing. Close the ends that a process "
        "does not use, so that a dead writer is noticed, and read with a timeout.",
        re.compile(r"/multiprocessing/(queues|connection|managers|synchronize)\.py:"),
        also=lambda seen: (seen.kernel.file or "").startswith("pipe:") and not seen.inner,
    ),
    Row(
        "subprocess", "a child process", "waited for a child process", _child,
        "Find out what the child process waits for, and pass a timeout. If it writes to a pipe, "
        "read that (communicate()) before you wait.",
        re.compile(
            r"/subprocess\.py:|/multiprocessing/(process|popen_\w+|pool)\.py:|/os\.py:\d+ system$"
        ),
        frozenset({"wait4", "waitid"}), frozenset({"waitpid", "system", "waitid", "wait4"}),
    ),
    Row(
        "tasks", "items of a queue", "waited for a queue's items to be done", _tasks,
        "Call task_done() once for each item that get() returned, also for one that is skipped or "
        "fails: use try and finally.",
        re.compile(r"/queue\.py:\d+ join$"),
    ),
    Row(
        "own lock", "a lock", "waited for a lock that it holds itself", _own_lock,
        "Take the lock once, or make it a threading.RLock, which a thread may take again.",
        also=_holds_it,
    ),
    Row(
        "held lock", "a lock", "waited for a lock", _thread,
        "Release the lock on {who} before the line where that thread is, or take it with a "
        "timeout. Hold no lock while you call a collective.",
        also=lambda seen: _is_lock(seen) and bool(_holders(seen)),
    ),
    Row(
        "thread", "a thread", "waited for another thread", _thread,
        "Find out which thread of {who} was to release the lock or give a result, and why it does "
        "not (`py-spy dump`). Wait with a timeout, and hold no lock while you call a collective.",
        re.compile(
            r"/queue\.py:\d+ (get|put)$"
            r"|/threading\.py:\d+ (wait|wait_for|join|acquire|__enter__|_wait_for_tstate_lock)$"
            r"|/concurrent/futures/_base\.py:\d+ \w+$"
        ),
        functions=frozenset({"acquire"}),
        also=_is_lock,
    ),
    Row(
        "socket", "a connection", "waited for a connection", _socket,
        "Pass a timeout to the request. If only one rank needs the answer, let it broadcast "
        "whether it came.",
        re.compile(
            r"/(socket|ssl)\.py:|/http/client\.py:|/(urllib3|requests|httpx|httpcore|aiohttp|grpc"
            r"|botocore|fsspec|s3fs|gcsfs|redis)/"
        ),
        frozenset({"connect", "accept", "accept4", "recvfrom", "recvmsg", "sendto", "sendmsg"}),
        frozenset({"recv", "recv_into", "recvfrom", "accept", "connect"}),
        also=_is_socket,
    ),
    Row(
        "sleep", "the end of a sleep", "slept", _sleep,
        "If {who} sleeps until a condition is true: find out why it stays false, and limit the "
        "time. Else sleep on every rank, or on none.",
        calls=frozenset({"nanosleep", "clock_nanosleep"}), functions=frozenset({"sleep"}),
    ),
    Row(
        "file", "a file", "waited for a file", _file,
        "Look at the file system (a mount that does not answer, a FIFO without another end), copy "
        "the data to a local disk, or give init_process_group a timeout that covers the read.",
        re.compile(
            r"/torch/(serialization|distributed/checkpoint/)|/(safetensors|h5py|pyarrow|zarr)/"
            r"|/numpy/lib/|/pandas/io/|/(pathlib|shutil|zipfile|gzip|tarfile|lzma|bz2)\.py:"
            r"|/pathlib/"
        ),
        frozenset({"fsync", "fdatasync", "page fault", "getdents64", "open", "openat", "stat",
                   "lstat", "newfstatat", "statx"}),
        frozenset({"open", "read", "readline", "readinto", "write", "flush", "fsync", "stat",
                   "listdir"}),
        also=_is_file,
    ),
)  # fmt: skip
"""The most specific ones come first."""
