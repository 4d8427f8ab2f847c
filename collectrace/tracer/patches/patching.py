"""Put wrappers on functions of torch, and remove them again.

``targets`` lists the functions. Each installation returns its undo. If another wrapper was put
around ours meanwhile, both stay, and ours only passes calls on.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, Protocol

import wrapt

from collectrace.errors import CollectraceError
from collectrace.tracer import dynamo, torch_api
from collectrace.tracer.guard import Failed, Wrapper, guarded
from collectrace.tracer.tap.wire import Undo
from collectrace.tracer.user_text import LONGEST_NAME, safe_attribute, safe_text

_version = getattr(wrapt, "__version__", "an older one")
if not hasattr(wrapt.BoundFunctionWrapper, "__class_getitem__"):
    raise CollectraceError(
        f"wrapt is {_version}, and must be 2.0 or newer. Run: pip install --upgrade wrapt"
    )


class Installer(Protocol):
    """The owner of the wrappers: a session."""

    live: bool
    """False: no more functions must be patched."""

    def count_failure(self, problem: Exception, doing: str) -> None:
        """Count the failure of a wrapper. The wrapped function has not failed."""

    def not_found(self, where: str) -> None:
        """Note that this torch lacks a function that all known versions have."""


@dataclass(frozen=True, slots=True)
class Target:
    """One function to patch."""

    modules: tuple[str, ...]
    """All modules in which callers look the function up."""
    name: str
    """Dotted path inside the module."""
    make: Callable[[Any], Any]
    """Makes a ``guard.Wrapper`` from the installer. If ``direct`` or ``plain``, it makes a function
    that takes the original and returns its replacement."""
    direct: bool = False
    """On the hot path: the replacement is called without a guard, as hardly anything can fail."""
    plain: bool = False
    """Like ``direct``, but the replacement is a plain function. It costs one level of Python's
    recursion limit, a wrapper two."""
    by_name: bool = False
    """Patch the function also in modules of its package that have imported it by name. Modules
    that import it later get the wrapper anyway."""

    @property
    def where(self) -> str:
        """Return its name in a header."""
        return f"{self.modules[0]}.{self.name}"


class _Bound(wrapt.BoundFunctionWrapper[..., Any]):
    """A wrapped method of an instance, pickled as that method."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        return getattr, (self.__self__, self.__name__)


class Patched(wrapt.FunctionWrapper[..., Any]):
    """A wrapped function that pickles and copies like the function itself.

    wrapt's class cannot be pickled, and so not be passed to ``mp.spawn``.
    """

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
    """Patch every target that this torch has; return the names of the patched ones, and the undo.

    A target in a module that is not imported yet is patched at the import, and the list of names
    grows then. Importing parts of torch that the user may not need would take seconds.
    """
    dynamo.hide_package()
    undos = ExitStack()
    installed: list[str] = []

    def patch(target: Target) -> None:
        if _patch(target, installer, undos):
            installed.append(target.where)
        elif torch_api.is_expected(target.where):
            installer.not_found(target.where)

    try:
        for target in targets:
            missing = [name for name in target.modules if name not in sys.modules]
            if not missing:
                patch(target)
                continue

            def later(_: Any, target: Target = target) -> None:
                if installer.live:
                    patch(target)

            wrapt.register_post_import_hook(later, missing[0])
    except BaseException:
        undos.close()
        raise
    return installed, undos.close


def _patch(target: Target, installer: Installer, undos: ExitStack) -> bool:
    """Patch one function in all modules that have it; return whether there is such a function."""
    original, wrapper = _MISSING, None
    for module in (*target.modules, *_importers(target)):
        found = _find(module, target.name)
        if found is None:
            continue
        parent, attribute, function = found
        if function is not original:  # modules that share a function share its wrapper
            original, wrapper = function, _wrapper(target, parent, function, installer)
        undos.callback(put(parent, attribute, wrapper))
    return wrapper is not None


def _importers(target: Target) -> list[str]:
    """Return the modules of the same package that have imported the function by its name."""
    home = sys.modules.get(target.modules[0])
    if not target.by_name or "." in target.name or home is None:
        return []
    package, original = f"{home.__name__.partition('.')[0]}.", vars(home).get(target.name, _MISSING)
    return [
        name
        for name, module in sys.modules.copy().items()
        if name.startswith(package)
        and module is not home
        and getattr(module, "__dict__", {}).get(target.name) is original
    ]


def _wrapper(target: Target, parent: Any, original: Any, installer: Installer) -> Any:
    made = target.make(installer)
    if target.direct:
        return _direct(original, made(original))
    if target.plain:
        return _plain(original, made(original))
    if target.by_name and not isinstance(parent, type):
        torch_api.hide_from_dynamo(made.__code__, callees=False)
        return _function(original, guarded(made, target.name, installer.count_failure))
    return wrap(parent, original, made, installer.count_failure)


def wrap(parent: Any, original: Any, handler: Wrapper, failed: Failed) -> Any:
    """Return a replacement of ``original`` that calls ``handler`` with it.

    ``parent`` holds the function: a class, a module, or None for neither.
    """
    torch_api.hide_from_dynamo(handler.__code__, callees=False)
    name = safe_text(safe_attribute(original, "__name__", "a hook"), LONGEST_NAME)
    handler = guarded(handler, name, failed)
    return _method(original, handler) if isinstance(parent, type) else Patched(original, handler)


def _direct(original: Any, call: Any) -> Any:
    """Return a replacement of a module's function ``original`` that runs ``call``."""
    torch_api.hide_from_dynamo(call.__code__, callees=False)

    class CalledDirectly(Patched):
        # wrapt's `__call__` looks up `__self__`, which a function lacks: half the cost of a call.
        __call__ = call

    # The wrapper is used only if somebody has made a method of the function.
    return CalledDirectly(original, lambda wrapped, _, args, kwargs: wrapped(*args, **kwargs))


def _method(original: Any, handler: Wrapper) -> Any:
    # A plain function: Dynamo compiles calls of wrappers in C, such as wrapt's, without their self.
    # It has the original's name, and so pickles like the original.
    if isinstance(original, staticmethod):
        return staticmethod(_function(original.__func__, handler))
    if isinstance(original, classmethod):
        return classmethod(_method(original.__func__, handler))

    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return handler(original.__get__(self), self, args, kwargs)

    dynamo.see_through(method, original)
    _methods.add(method)
    return method


def _function(original: Any, handler: Wrapper) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        return handler(original, None, args, kwargs)

    return _plain(original, function)


def _plain(original: Any, function: Any) -> Any:
    """Give ``function`` the name of ``original``, so that it pickles like it, and return it."""
    functools.update_wrapper(function, original)
    torch_api.hide_from_dynamo(function.__code__, callees=False)
    dynamo.see_through(function, original)
    _methods.add(function)
    return function


def is_wrapper(function: Any) -> bool:
    """Return whether a function is a replacement made by this module."""
    return isinstance(function, Patched) or function in _methods


_methods: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def put(parent: Any, attribute: str, wrapper: Any) -> Undo:
    """Replace a function by a wrapper; return the undo.

    If somebody else has replaced the wrapper meanwhile, the undo does nothing.
    """
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
    """Return a function's holder, its name there, and the function; None: it does not exist."""
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
