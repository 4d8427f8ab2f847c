"""Read the variables of a frame without side effects.

From Python 3.12 on, ``PyFrame_GetVar`` of the C API reads one variable. Python 3.11 has only
``frame.f_locals``, which copies all variables to a dictionary of the frame. The dictionary keeps
the values alive until the function returns. If there is a trace function, Python writes the
dictionary back to the variables. So in Python 3.11:

- The dictionary is emptied at once, unless somebody else holds it.
- A function that may get such a dictionary by ``locals()`` or the like is not read, as its
  dictionary would change.
- A frame with a possible trace or profile function is not read: Python writes the dictionary back
  when that function returns (``call_trampoline``, Python/sysmodule.c).
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

_ASKING: Final = frozenset({"locals", "vars", "eval", "exec"})
"""Functions that give code access to its own variables."""

_MOST_COPIED: Final = 20_000
"""A frame with more variables is not copied."""

_UNHELD: Final = 3
"""References to an object with one holder: the holder's, a variable of ours, an argument."""

_UNBOUND: Final = object()

_get_variable: Final[Any] = getattr(ctypes.pythonapi, "PyFrame_GetVar", None)
if _get_variable is not None:
    _get_variable.argtypes = [ctypes.py_object, ctypes.py_object]
    _get_variable.restype = ctypes.py_object


def may_read(frame: FrameType, references: int, held: int) -> bool:
    """Return whether the variables of another thread's running frame may be read.

    ``references``: the result of ``sys.getrefcount`` while one variable holds the frame. ``held``:
    the number of further harmless references. Any other holder of the frame, such as a trace
    function, may be changing its variables.
    """
    if _get_variable is not None:
        return True
    return references - held <= _UNHELD and frame.f_trace is None


def variables(frame: FrameType, names: Sequence[str]) -> list[tuple[str, Any]] | None:
    """Return the bound names among ``names`` in a function's frame, with their values.

    None: the frame cannot be read.
    """
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return []
    read = _copy(frame, names) if _get_variable is None else _get_each(frame, names)
    if read is None:
        return None
    return [(name, x) for name, x in zip(names, read, strict=True) if x is not _UNBOUND]


def _get_each(frame: FrameType, names: Sequence[str]) -> list[Any]:
    found = []
    for name in names:
        try:
            found.append(_get_variable(frame, name))
        except NameError:
            found.append(_UNBOUND)
    return found


def _copy(frame: FrameType, names: Sequence[str]) -> list[Any] | None:
    code, references = frame.f_code, sys.getrefcount(frame)
    if not _ASKING.isdisjoint(code.co_names) or len(code.co_varnames) > _MOST_COPIED:
        return None
    copy = frame.f_locals
    found = [copy.get(name, _UNBOUND) for name in names]
    # The thread may have run meanwhile. If a trace function may run now, the copy stays.
    is_same = sys.getrefcount(frame) == references and frame.f_trace is None
    if is_same and sys.getrefcount(copy) <= _UNHELD:
        copy.clear()
    return found


def local_names(frame: FrameType) -> list[str]:
    """Return the names of a function's variables: its own, shared ones, and those from outside."""
    code = frame.f_code
    return list(dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)))


def global_variables(frame: FrameType) -> dict[str, Any] | None:
    """Return the global variables of a frame; None for code in another namespace, as of a class."""
    code = frame.f_code
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
    # The `f_locals` of a class body is not read: it may be of any type, and reading changes it.
    is_module = code.co_name == "<module>" and frame.f_locals is frame.f_globals
    return frame.f_globals if is_function or is_module else None
