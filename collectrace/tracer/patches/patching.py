"""Puts wrappers on functions of torch, and takes them off again.

The table of what is patched is in ``targets``; here is only how. Whatever is installed returns
its undo. Where somebody has wrapped our wrapper since, theirs stays and ours goes quiet.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import wrapt

from collectrace.tracer import dynamo
from collectrace.tracer.guard import Failed, Wrapper, guarded
from collectrace.tracer.tap.wire import Undo


class Installer(Protocol):
    """Whoever installs says when it is over, and hears of what failed."""

    live: bool

    def count_failure(self, problem: Exception, doing: str) -> None:
        """A wrapper failed; the call it stands around did not."""


@dataclass(frozen=True, slots=True)
class Target:
    """One function to patch."""

    modules: tuple[str, ...]
    """Every module through which the function is looked up."""
    name: str
    """Dotted path inside the module."""
    make: Callable[[Any], Any]
    """Makes the wrapper, given the installer of this installation."""
    direct: bool = False
    """On the hot path: what is made, given the original, makes the function that stands for it.
    Nothing guards that one, which has too little in it to fail."""

    @property
    def where(self) -> str:
        """As in a header."""
        return f"{self.modules[0]}.{self.name}"


class _Bound(wrapt.BoundFunctionWrapper[..., Any]):
    def __reduce_ex__(self, protocol: Any) -> Any:
        return getattr, (self.__self__, self.__name__)


class Patched(wrapt.FunctionWrapper[..., Any]):
    """A wrapped function that pickles and copies as the function itself does."""

    __bound_function_wrapper__ = _Bound

    def __reduce_ex__(self, protocol: Any) -> Any:
        wrapped = self.__wrapped__
        return pkgutil.resolve_name, (f"{wrapped.__module__}:{wrapped.__qualname__}",)

    def __copy__(self) -> Patched:
        return self

    def __deepcopy__(self, memo: Any) -> Patched:
        return self


_MISSING: Final = object()


def install(targets: Iterable[Target], installer: Installer) -> tuple[list[str], Undo]:
    """Patch every target that this torch has.

    A module that is not imported yet is patched when it is: importing parts of torch that the
    user may not need would cost seconds. Returns what was installed, and the undo.
    """
    dynamo.hide_package()
    undos: list[Undo] = []
    installed: list[str] = []
    for target in targets:
        missing = [name for name in target.modules if name not in sys.modules]
        if not missing:
            if _patch(target, installer, undos):
                installed.append(target.where)
            continue

        def later(_: Any, target: Target = target) -> None:
            if installer.live and _patch(target, installer, undos):
                installed.append(target.where)

        wrapt.register_post_import_hook(later, missing[0])

    def undo() -> None:
        while undos:
            undos.pop()()

    return installed, undo


def _patch(target: Target, installer: Installer, undos: list[Undo]) -> bool:
    wrapper, wrapped = None, _MISSING
    for module in target.modules:
        found = _find(module, target.name)
        if found is None:
            continue
        parent, attribute, original = found
        if wrapped is not original:
            made, wrapped = target.make(installer), original
            if target.direct:
                wrapper = _direct(original, made(original))
            else:
                wrapper = wrap(parent, original, made, installer.count_failure)
        undos.append(put(parent, attribute, wrapper))
    return wrapper is not None


def wrap(parent: Any, original: Any, handler: Wrapper, failed: Failed) -> Any:
    """What takes the place of a function of a module, or of a class."""
    dynamo.hide_from_dynamo(handler.__code__, callees=False)
    handler = guarded(handler, getattr(original, "__name__", "a hook"), failed)
    return _method(original, handler) if isinstance(parent, type) else Patched(original, handler)


def _direct(original: Any, call: Any) -> Any:
    dynamo.hide_from_dynamo(call.__code__, callees=False)

    class Called(Patched):
        # wrapt's own asks a function for the `__self__` it never has: half of what a call costs.
        __call__ = call

    # Only where somebody has made a method of it.
    return Called(original, lambda wrapped, _, args, kwargs: wrapped(*args, **kwargs))


def _method(original: Any, handler: Wrapper) -> Any:
    # A plain function: of a wrapper that is written in C Dynamo makes calls without their self.
    # It has the original's name, and so pickles as that does.
    if isinstance(original, staticmethod):
        function = original.__func__

        @functools.wraps(function)
        def static(*args: Any, **kwargs: Any) -> Any:
            return handler(function, None, args, kwargs)

        dynamo.see_through(static, function)
        return staticmethod(static)

    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return handler(original.__get__(self), self, args, kwargs)

    dynamo.see_through(method, original)
    _methods.add(method)
    return method


def is_wrapper(function: Any) -> bool:
    """Whether it stands in the place of another."""
    return isinstance(function, Patched) or function in _methods


_methods: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def put(parent: Any, attribute: str, wrapper: Any) -> Undo:
    """Put a wrapper in a function's place; the undo puts the function back."""
    own = vars(parent).get(attribute, _MISSING)
    setattr(parent, attribute, wrapper)

    def undo() -> None:
        if vars(parent).get(attribute) is not wrapper:
            return
        if own is _MISSING:
            delattr(parent, attribute)
        else:
            setattr(parent, attribute, own)

    return undo


def _find(module: str, path: str) -> tuple[Any, str, Any] | None:
    parent: Any = importlib.import_module(module)
    *outer, attribute = path.split(".")
    for name in outer:
        parent = getattr(parent, name, None)
        if parent is None:
            return None
    # Through the class's own dict: a staticmethod must be wrapped as one.
    original = vars(parent).get(attribute, _MISSING)
    if original is _MISSING:
        original = getattr(parent, attribute, _MISSING)
    return None if original is _MISSING else (parent, attribute, original)
