"""The scopes of threads: the API call and the framework's part inside which they issue collectives.

Each wrapper of a patched function enters a scope on its thread and leaves it again. The recorder
reads the thread's scope. A scope is immutable and keeps the scopes that were entered from it.
Entering one again returns the same object, so a template is found by the identity of its scope.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Final

from collectrace import roles
from collectrace.records import NATIVE
from collectrace.tracer.record.sites import NOWHERE, Place
from collectrace.tracer.record.template import Issued, Template
from collectrace.tracer.user_objects import ByObject, is_a
from collectrace.tracer.user_text import thread_name

now = time.monotonic_ns
"""Returns the time of the record's clock, ns."""


@dataclass(slots=True, eq=False)
class Scope:
    """The combined effect of nested patched functions.

    The ``inside_...`` methods of the outer scope create it, once per nesting.
    """

    api: str | None = None
    """Outermost public function of torch.distributed on the stack."""
    role: str | None = None
    """Role of the framework's part on the stack; None: the user's call."""
    owner: weakref.ref[Any] | None = None
    """The DDP module or ZeRO optimizer that the role belongs to."""
    what: str | None = None
    """What the thread is in besides calls: ``backward``, ``group``, ``batch``, ``sync``."""
    within: frozenset[str] = frozenset()
    """Names of groups written in Python that have a method on the stack. Their calls on themselves
    are part of a recorded call."""
    part: str | None = None
    """The part of the framework's model or loop that the role concerns, as in ``Call.part``."""
    children: dict[Any, Scope] = field(default_factory=dict, init=False)
    """Scopes entered from here, by what was entered."""

    def inside_api(self, name: str) -> Scope:
        """Return the scope inside a public function; the outermost one counts."""
        return self.children.get(name) or self._keep(name, api=self.api or name)

    def inside_role(self, role: str, owner: Any) -> Scope:
        """Return the scope inside a framework's part; the most precise role counts.

        ``owner``: its DDP module or ZeRO optimizer; None: that of this scope.
        """
        key = (role, id(owner))
        child = self.children.get(key)
        if child is not None and (child.owner is None or child.owner() is not None):
            return child
        # Without an API: calls of all_reduce inside join() are details of join().
        owned_by = self.owner if owner is None else _reference(owner)
        return self._keep(key, api=None, role=self._refine(role), owner=owned_by, part=None)

    def inside_part(self, role: str, part: str | None) -> Scope:
        """Return the scope inside a framework's part that belongs to no DDP module.

        ``part``: its name, as in ``Call.part``. There must be few different names.
        """
        key = (role, part)
        child = self.children.get(key)
        if child is None:
            refined = self._refine(role)
            if refined == self.role:
                child = self._keep(key, api=None)
            else:
                child = self._keep(key, api=None, role=refined, owner=None, part=part)
        return child

    def inside_what(self, what: str) -> Scope:
        """Return the scope inside something other than a call, such as a backward."""
        return self.children.get((what,)) or self._keep((what,), what=what)

    def inside_backward(self, module: Any) -> Scope:
        """Return the scope inside a backward; ``module``: its DDP module, if known."""
        scope = self.inside_what("backward")
        if module is None or scope.role is not None:
            return scope
        key = ("backward", id(module))
        child = scope.children.get(key)
        if child is None or child.owner is None or child.owner() is None:
            child = scope._keep(key, owner=_reference(module))
        return child

    def inside_group(self, name: str) -> Scope:
        """Return the scope inside a method of a group written in Python."""
        key = ("within", name)
        return self.children.get(key) or self._keep(key, within=self.within | {name})

    def _keep(self, key: Any, **changed: Any) -> Scope:
        """Make a child, and drop those of dead owners, as a program may keep making models."""
        for other, scope in self.children.copy().items():
            if scope.owner is not None and scope.owner() is None:
                self.children.pop(other, None)
        child = self.children[key] = replace(self, **changed)
        return child

    def _refine(self, role: str) -> str:
        if self.role is None:
            return role
        mine, theirs = roles.of(self.role).weight, roles.of(role).weight
        if theirs < mine:
            return self.role
        # Both sides call the same helper; on a rank that has joined it is join()'s shadow.
        if self.role in _UNDER and role in _UNDER[self.role]:
            return _UNDER[self.role][role]
        return role if theirs > mine else self.role


# What a shared helper's role becomes inside another's.
_UNDER: Final[dict[str, dict[str, str]]] = {
    "ddp.forward.sync_buffers": {"join.common_rank": "ddp.forward.buffers_rank"},
    "join.sync_buffers": {
        "join.common_rank": "join.buffers_rank",
        "ddp.forward.sync_buffers": "join.sync_buffers",
    },
}


def _reference(owner: Any) -> weakref.ref[Any] | None:
    try:
        return weakref.ref(owner)
    except TypeError:
        return None


ROOT: Final = Scope()


class ThreadState:
    """The state of one thread. The watchdog reads it from another thread, at any moment."""

    __slots__ = (
        "__weakref__",
        "call",
        "call_t",
        "caller",
        "given",
        "given_at",
        "ident",
        "is_described",
        "issued",
        "label",
        "name",
        "reduce_op",
        "scope",
        "since",
        "wait",
    )

    def __init__(self) -> None:
        self.ident = threading.get_ident()
        self.name = self.label = f"{NATIVE}{threading.get_native_id()}"
        """The thread's name; ``label``: its name in ``call`` records, empty for the main thread."""
        self.scope = ROOT
        self.since = 0
        """When ``scope.what`` was entered, ns."""
        self.caller: FrameType | None = None
        """The frame that called the public function in progress."""
        self.reduce_op: object = None
        """The member of the ReduceOp enum that was passed to the public function in progress; None:
        it takes none, or got another object."""
        self.call: Issued | None = None
        """The call being issued. A synchronous one stays until its public function returns, or the
        thread issues another call."""
        self.given: tuple[Any, ...] | None = None
        """The arguments of ``call``, as its reader reads them; set and cleared with it."""
        self.call_t = 0
        """When the latest call was issued, ns."""
        self.issued: Issued | None = None
        """The latest asynchronous call."""
        self.wait: tuple[Template, int, int] | None = None
        """The call that ``Work.wait`` waits for: its template, its number, since when (ns)."""
        self.given_at = NOWHERE
        """The line that started the thread, or that submitted its current work."""
        self.is_described = False
        """Whether its name is known."""
        # A failure must not reach the program; it is tried again when a call is recorded.
        with contextlib.suppress(Exception):
            self.describe()

    def describe(self) -> None:
        """Set the thread's name, and the line that started it."""
        thread = _thread(self.ident)
        if thread is not None:
            self.name = thread_name(thread)
            self.given_at = started_at.get(thread) or NOWHERE
        self.label = "" if self.ident == threading.main_thread().ident else self.name
        self.is_described = True

    def lent(self) -> Place:
        """Return the line that gave this thread its work; for a C++ thread, the backward's line."""
        return backward.place if self.name.startswith(NATIVE) else self.given_at


started_at: Final = ByObject[Place]()
"""The lines that have started threads."""


def _thread(ident: int) -> threading.Thread | None:
    """Return the thread with this identifier; None: it is a thread of C++."""
    # Not by current_thread(): for a C++ thread it registers a permanent dummy. Others, such as
    # logging, do so. Nor by `ident`, which a class of the program may define.
    thread = threading._active.get(ident)  # type: ignore[attr-defined]
    return None if thread is None or is_a(thread, threading._DummyThread) else thread


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()
        _states[self.state.ident] = weakref.ref(self.state)


_states: dict[int, weakref.ref[ThreadState]] = {}
local = _Local()
"""The state of each thread; the watchdog reads all of them through :func:`all_states`."""


def within(scope: Scope, wrapped: Any, args: Any, kwargs: Any, since: int | None = None) -> Any:
    """Call ``wrapped`` with the calling thread in this scope, and return its result.

    ``since``: when ``scope.what`` was entered, ns; None: this scope enters nothing.
    """
    mine = local.state
    outer, outer_since = mine.scope, mine.since
    # One assignment, and no call before the try: so no signal handler can raise in between.
    mine.scope, mine.since = scope, outer_since if since is None else since
    try:
        return wrapped(*args, **kwargs)
    finally:
        mine.scope, mine.since = outer, outer_since


def all_states() -> list[ThreadState]:
    """Return the state of every living thread that has issued a call or entered a scope."""
    living = []
    for ident, reference in _states.copy().items():
        found = reference()
        if found is None:
            if _states.get(ident) is reference:
                del _states[ident]
        else:
            living.append(found)
    return living


class Backward:
    """The ``backward()`` calls in progress in this process, and the lines that called them.

    On a GPU, autograd issues its collectives from C++ threads, which have no Python frame and no
    scope.
    """

    def __init__(self) -> None:
        self._stack: list[Place] = []

    def enter(self, place: Place) -> None:
        """Note that a backward begins, called from this place."""
        self._stack.append(place)

    def leave(self) -> None:
        """Note that the latest backward is over."""
        if self._stack:
            self._stack.pop()

    @property
    def place(self) -> Place:
        """Return the place of the latest backward in progress; NOWHERE: there is none."""
        return self._stack[-1] if self._stack else NOWHERE

    def __bool__(self) -> bool:
        return bool(self._stack)


backward: Final = Backward()


def after_fork() -> None:
    """Forget the parent's threads in a forked child, except the forking one.

    It is the child's main thread.
    """
    mine = local.state
    _states.clear()
    _states[mine.ident] = weakref.ref(mine)
    mine.call = mine.given = mine.wait = None
    mine.label, mine.given_at = "", NOWHERE
    backward.__init__()  # type: ignore[misc]
