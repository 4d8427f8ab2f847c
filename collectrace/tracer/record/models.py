"""The DDP modules of a run: how often each has run forward, and whose gradients are reduced.

DDP's reducer is C++ and does not say of which module a gradient bucket is. It issues one from a
hook on the node that accumulates the gradient of a parameter, the last of the bucket's to be ready
(``Reducer::autograd_hook``, torch/csrc/distributed/c10d/reducer.cpp, torch 2.13), and autograd
tells which node a thread is at. Asked for where there are several modules only: 0.1 us per bucket.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

import torch

from collectrace.tracer.user_objects import ByObject

_current_node: Final[Callable[[], Any]] = getattr(torch._C, "_current_autograd_node", lambda: None)
"""The node of autograd's graph that the calling thread is evaluating; None: it is at none."""

_Owner = weakref.ref[Any]


class Models:
    """Those that live."""

    def __init__(self) -> None:
        self._forwards = ByObject[int]()
        """Those shadowed in join() count, and so a module's are equal on all ranks when they leave
        it."""
        self._owners: dict[int, _Owner | None] | None = None
        """The module of each parameter, by the parameter's id; None: several have it. None for the
        whole: to be worked out, which is done once after a module's first forward."""

    def forward_begins(self, module: Any) -> int:
        """The ordinal of a forward that a module begins, from 1."""
        before = self._forwards.get(module) or 0
        self._forwards[module] = before + 1
        if not before:
            self._owners = None
        return before + 1

    def forwards(self, module: Any) -> int:
        """How many forwards a module has begun."""
        return self._forwards.get(module) or 0

    def in_backward(self) -> Any:
        """The module of the parameter whose gradient this thread is accumulating; None: unknown.

        It is, too, in the first iteration under ``static_graph``, whose buckets are all issued at
        the end of the backward.
        """
        parameter = getattr(_current_node(), "variable", None)
        if parameter is None:
            return None
        owners = self._owners
        if owners is None:
            owners = self._owners = _owners(self._forwards.references())
        owner = owners.get(id(parameter))
        return None if owner is None else owner()


def _owners(modules: list[_Owner]) -> dict[int, _Owner | None]:
    owners: dict[int, _Owner | None] = {}
    for own in modules:
        module = own()
        for parameter in () if module is None else module.parameters():
            owners[id(parameter)] = None if id(parameter) in owners else own
    return owners
