"""The kernels in C++, if they were built for this torch (``tools/build_native.py``).

C++ of torch has no stable interface. So the name of the built file says which torch it is for, and
with any other one the kernels in Python are used.
"""

from __future__ import annotations

import sysconfig
from functools import cache
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any, Final

import torch

from collectrace.tracer.tap.arguments import REDUCE_OPS

_NAME: Final = f"{__name__.rpartition('.')[0]}._tap"


class _ToldReduceOp:
    """A ReduceOp as an operator is given it: it answers its integer."""

    def __init__(self, number: int) -> None:
        self._number = number

    def op(self) -> int:
        return self._number


_REDUCE_OPS: Final = tuple(_ToldReduceOp(number) for number, _ in enumerate(REDUCE_OPS))


def tap(session: Any) -> Any:
    """Return an object that installs kernels with ``put``, until ``close``; None: not built."""
    module = _module()
    return None if module is None else module.Tap(session, _REDUCE_OPS)


def path() -> Path:
    """Return the file that is built for this torch and this Python."""
    commit = (torch.version.git_version or "")[:12]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return Path(__file__).with_name(f"_tap-{torch.__version__}-{commit}{suffix}")


@cache
def _module() -> Any:
    file = str(path())
    loader = ExtensionFileLoader(_NAME, file)
    try:
        module = module_from_spec(ModuleSpec(_NAME, loader, origin=file))
        loader.exec_module(module)
    except ImportError:  # it was not built, or with another C++ library
        return None
    return module
