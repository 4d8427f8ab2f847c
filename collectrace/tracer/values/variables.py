"""The variables of a frame, read without a trace left in it.

From Python 3.12 on ``PyFrame_GetVar`` of the C API reads one variable. Python 3.11 has only
``frame.f_locals``, which copies all variables to a dictionary that stays with the frame: it keeps
what they held alive until the function returns, whatever the function does to them, and a trace
function has it written back. So there:

- The dictionary is emptied at once, unless somebody else holds it.
- Code that asks for such a dictionary by ``locals()`` and the like is not read: it may hold one,
  which would change.
- A frame that a trace or profile function may be at work on is not read: Python writes the
  dictionary back when that returns (``call_trampoline``, Python/sysmodule.c).
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

_ASKING: Final = frozenset({"locals", "vars", "eval", "exec"})
"""Functions by which code gets at its own variables."""

_MOST_COPIED: Final = 20_000
"""Variables of a frame whose copy is made."""

_UNHELD: Final = 3
"""References to an object that one place holds: its own, a variable of ours, an argument."""

_UNBOUND: Final = object()

_get_variable: Final[Any] = getattr(ctypes.pythonapi, "PyFrame_GetVar", None)
if _get_variable is not None:
    _get_variable.argtypes = [ctypes.py_object, ctypes.py_object]
    _get_variable.restype = ctypes.py_object


def may_read(frame: FrameType, references: int, held: int) -> bool:
    """Return whether the variables of another thread's running frame may be read.

    ``references``: what ``sys.getrefcount`` says of it where one variable holds it. ``held``: how
    many more are known to be harmless. Whoever else holds a frame, as a trace function does, may be
    at work on its variables.
    """
    if _get_variable is not None:
        return True
    return references - held <= _UNHELD and frame.f_trace is None


def variables(frame: FrameType, names: Sequence[str]) -> list[tuple[str, Any]] | None:
    """Return the names that are bound in a frame of a function, and what to.

    None: the frame cannot be read.
    """
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return []
    read = _copied(frame, names) if _get_variable is None else _asked(frame, names)
    if read is None:
        return None
    return [(name, x) for name, x in zip(names, read, strict=True) if x is not _UNBOUND]


def _asked(frame: FrameType, names: Sequence[str]) -> list[Any]:
    found = []
    for name in names:
        try:
            found.append(_get_variable(frame, name))
        except NameError:
            found.append(_UNBOUND)
    return found


def _copied(frame: FrameType, names: Sequence[str]) -> list[Any] | None:
    code, references = frame.f_code, sys.getrefcount(frame)
    if not _ASKING.isdisjoint(code.co_names) or len(code.co_varnames) > _MOST_COPIED:
        return None
    copy = frame.f_locals
    found = [copy.get(name, _UNBOUND) for name in names]
    # The thread may have run on meanwhile: should a trace function be at work now, it stays.
    is_same = sys.getrefcount(frame) == references and frame.f_trace is None
    if is_same and sys.getrefcount(copy) <= _UNHELD:
        copy.clear()
    return found


def local_names(frame: FrameType) -> list[str]:
    """Return the names of a function's variables, in the order in which they appear in it."""
    code = frame.f_code
    return list(dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)))


def global_variables(frame: FrameType) -> dict[str, Any] | None:
    """Return the global variables of a frame; None: looking into them could run other code.

    Also None for code that is run in a namespace of its own, such as the body of a class.
    """
    code = frame.f_code
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
    # A class's `f_locals` is not asked for: it may be of any type, and something is added to it.
    is_module = code.co_name == "<module>" and frame.f_locals is frame.f_globals
    return frame.f_globals if is_function or is_module else None
