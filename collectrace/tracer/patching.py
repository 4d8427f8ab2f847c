"""Puts wrappers on functions of torch, and takes them off again.

The table of what is patched is in ``targets``; here is only how. Whatever is installed returns
its undo. Where somebody has wrapped our wrapper since, theirs stays and ours goes quiet.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import wrapt

from collectrace.tracer.wire import Undo, hide_from_dynamo

Wrapper = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]
"""wrapt's signature: wrapped, instance, args, kwargs."""


class Live(Protocol):
    """Whoever installs says when it is over."""

    live: bool


@dataclass(frozen=True, slots=True)
class Target:
    """One function to patch."""

    modules: tuple[str, ...]
    """Every module through which the function is looked up."""
    name: str
    """Dotted path inside the module."""
    make: Callable[[Any], Wrapper]
    """Makes the wrapper, given the hooks of this installation."""

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


def install(targets: Iterable[Target], hooks: Live) -> tuple[list[str], Undo]:
    """Patch every target that this torch has.

    A module that is not imported yet is patched when it is: importing parts of torch that the
    user may not need would cost seconds. Returns what was installed, and the undo.
    """
    undos: list[Undo] = []
    installed: list[str] = []
    for target in targets:
        missing = [name for name in target.modules if name not in sys.modules]
        if not missing:
            if _patch(target, hooks, undos):
                installed.append(target.where)
            continue

        def later(_: Any, target: Target = target) -> None:
            if hooks.live and _patch(target, hooks, undos):
                installed.append(target.where)

        wrapt.register_post_import_hook(later, missing[0])

    def undo() -> None:
        while undos:
            undos.pop()()

    return installed, undo


def _patch(target: Target, hooks: Live, undos: list[Undo]) -> bool:
    wrapper: Patched | None = None
    for module in target.modules:
        found = _find(module, target.name)
        if found is None:
            continue
        parent, attribute, original = found
        if wrapper is None or wrapper.__wrapped__ is not original:
            handler = target.make(hooks)
            hide_from_dynamo(handler.__code__, callees=False)
            wrapper = Patched(original, handler)
        own = vars(parent).get(attribute, _MISSING)
        setattr(parent, attribute, wrapper)
        undos.append(_undo(parent, attribute, own, wrapper))
    return wrapper is not None


def _undo(parent: Any, attribute: str, own: Any, wrapper: Patched) -> Undo:
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
