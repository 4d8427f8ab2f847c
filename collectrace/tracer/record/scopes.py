"""What is going on above a collective: which API call, which part of a framework.

Every patch pushes a scope on its thread and pops it again; the wire tap reads the innermost one.
A scope is immutable and knows its children, so that pushing one a second time finds the same
object: a record's fixed part is cached by the identity of its scope.
"""

from __future__ import annotations

import threading
import time
import weakref
from types import FrameType
from typing import Any, Final

from collectrace import roles
from collectrace.records import NATIVE
from collectrace.tracer.record.template import Issued, Template


class Scope:
    """The effective state of one nesting of scopes on a thread."""

    __slots__ = ("api", "children", "owner", "role", "what", "within")

    def __init__(
        self,
        api: str | None = None,
        role: str | None = None,
        owner: weakref.ref[Any] | None = None,
        what: str | None = None,
        within: frozenset[str] = frozenset(),
    ) -> None:
        self.api = api
        """Outermost public function of torch.distributed on the stack."""
        self.role = role
        """Role of the framework's part on the stack; None: the user's own call."""
        self.owner = owner
        """The DDP module or ZeRO optimizer that the role belongs to."""
        self.what = what
        """What the thread is in besides calls: `backward`, `group`, `batch`, `sync`."""
        self.within = within
        """Groups written in Python that a recorded call is inside of, by name."""
        self.children: dict[Any, Scope] = {}

    def inside_api(self, name: str) -> Scope:
        """This scope with a public function entered; the outermost one counts."""
        child = self.children.get(name)
        if child is None:
            child = Scope(self.api or name, self.role, self.owner, self.what, self.within)
            self.children[name] = child
        return child

    def inside_role(self, role: str, owner: Any) -> Scope:
        """This scope with a framework's part entered; the most precise one counts."""
        key = (role, id(owner))
        child = self.children.get(key)
        if child is not None and (child.owner is None or child.owner() is not None):
            return child
        refined = self._refine(role)
        # A framework's own use of an API tells nothing: join() calling all_reduce is join().
        owned_by = self.owner if owner is None else _reference(owner)
        child = self.children[key] = Scope(None, refined, owned_by, self.what, self.within)
        return child

    def _refine(self, role: str) -> str:
        if self.role is None:
            return role
        mine, theirs = roles.of(self.role).precision, roles.of(role).precision
        if theirs < mine:
            return self.role
        # The same helper serves both sides: on a rank that has joined it is join()'s shadow.
        if self.role in _UNDER and role in _UNDER[self.role]:
            return _UNDER[self.role][role]
        return role if theirs > mine else self.role

    def inside_what(self, what: str) -> Scope:
        """This scope with a backward, a group creation, ... entered."""
        child = self.children.get((what,))
        if child is None:
            child = Scope(self.api, self.role, self.owner, what, self.within)
            self.children[(what,)] = child
        return child

    def inside_group(self, name: str) -> Scope:
        """This scope with a method of a group written in Python entered."""
        key = ("within", name)
        child = self.children.get(key)
        if child is None:
            within = self.within | {name}
            child = Scope(self.api, self.role, self.owner, self.what, within)
            self.children[key] = child
        return child


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
    """One thread's scope, and the call it is in; the watchdog reads it from outside."""

    __slots__ = (
        "__weakref__",
        "call",
        "call_t",
        "caller",
        "ident",
        "is_main",
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
        self.is_main = self.ident == threading.main_thread().ident
        self.name = _thread_name(self.ident)
        self.caller: FrameType | None = None
        """The frame that called the public function in progress."""
        self.reduce_op: object = None
        """The member of the ReduceOp enum that the API call in progress was given."""
        self.label = "" if self.is_main else self.name
        """The name in records, where the main thread has none."""
        self.scope = ROOT
        self.since = 0
        """When ``scope.what`` was entered."""
        self.call: Issued | None = None
        """The call being issued, or waited for inside the API that issued it, and its seq."""
        self.call_t = 0
        self.issued: Issued | None = None
        """The asynchronous call that was issued last."""
        self.wait: tuple[Template, int, int] | None = None
        """What ``Work.wait`` waits for, its seq, and since when."""


def _thread_name(ident: int) -> str:
    # current_thread() would register a dummy for a thread of C++ that never leaves again.
    for thread in threading.enumerate():
        if thread.ident == ident:
            return thread.name
    return f"{NATIVE}{threading.get_native_id()}"


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()
        _states[self.state.ident] = weakref.ref(self.state)


_states: dict[int, weakref.ref[ThreadState]] = {}
local = _Local()
"""Each thread's own; the watchdog reads all of them through :func:`all_states`."""


def within(scope: Scope, wrapped: Any, args: Any, kwargs: Any) -> Any:
    """Call a function with the calling thread in this scope."""
    mine = local.state
    before, mine.scope = mine.scope, scope
    try:
        return wrapped(*args, **kwargs)
    finally:
        mine.scope = before


def state() -> ThreadState:
    """The calling thread's state."""
    return local.state


def all_states() -> list[ThreadState]:
    """Every living thread's state."""
    living = []
    for ident, reference in list(_states.items()):
        found = reference()
        if found is None:
            if _states.get(ident) is reference:
                del _states[ident]
        else:
            living.append(found)
    return living


class Backward:
    """The ``backward()`` calls in flight: on a GPU its collectives come from other threads."""

    def __init__(self) -> None:
        self._stack: list[tuple[str | None, str | None]] = []

    def enter(self, site: str | None, via: str | None) -> None:
        """A backward begins at this line."""
        self._stack.append((site, via))

    def leave(self) -> None:
        """The latest backward is over."""
        if self._stack:
            self._stack.pop()

    @property
    def site(self) -> tuple[str | None, str | None]:
        """Site and via of the latest one; None, None without one."""
        return self._stack[-1] if self._stack else (None, None)

    def __bool__(self) -> bool:
        return bool(self._stack)


backward: Final = Backward()


def after_fork() -> None:
    """Forget the parent's threads: only the forking one lives on."""
    mine = local.state
    _states.clear()
    _states[mine.ident] = weakref.ref(mine)
    mine.call = mine.wait = None
    mine.is_main, mine.label = True, ""
    backward.__init__()  # type: ignore[misc]


now = time.monotonic_ns
