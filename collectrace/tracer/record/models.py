"""The DDP modules of a run: how often each has run forward, and which one's gradients are reduced.

DDP's reducer is C++ and does not show to which module a gradient bucket belongs. It issues the
bucket from a hook on the node that accumulates the bucket's last gradient
(``Reducer::autograd_hook``, torch/csrc/distributed/c10d/reducer.cpp, torch 2.13). Autograd shows
at which node a thread is. That costs 0.1 us per bucket, and is used only for several modules.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from typing import Any, Final

import torch

from collectrace.tracer.user_objects import ByObject

_current_node: Final[Callable[[], Any]] = getattr(torch._C, "_current_autograd_node", lambda: None)
"""Returns the node of autograd's graph that the calling thread evaluates; None: there is none."""

_Owner = weakref.ref[Any]

_WITHOUT_GRADIENT: Final = re.compile(r"Parameter indices which did not receive grad[^:]*:([ \d]+)")
"""Torch 2.13, ``Reducer::ensure_prior_reduction_finished`` (reducer.cpp)."""

_MOST_NAMES: Final = 20


class Models:
    """The DDP modules that are alive."""

    def __init__(self) -> None:
        self._forwards = ByObject[int]()
        """Forwards begun by each module. Those shadowed in join() count, so the numbers are equal
        on all ranks when they leave it."""
        self._owners: dict[int, _Owner | None] | None = None
        """The module of each parameter, by the parameter's id; None: several modules have it. The
        dictionary itself is None until it is needed after a module's first forward."""

    def forward_begins(self, module: Any) -> int:
        """Count a forward that a module begins, and return its ordinal, from 1."""
        before = self._forwards.get(module) or 0
        self._forwards[module] = before + 1
        if not before:
            self._owners = None
        return before + 1

    def forwards(self, module: Any) -> int:
        """Return how many forwards a module has begun."""
        return self._forwards.get(module) or 0

    def without_gradient(self, message: str) -> list[str] | None:
        """Return the names of parameters that an exception of DDP has by index, at most 20.

        None if it has none, or several modules are alive. DDP counts the parameters that need a
        gradient (``_build_params_for_reducer``, torch/nn/parallel/distributed.py, torch 2.13).
        """
        found = _WITHOUT_GRADIENT.search(message)
        modules = [m for one in self._forwards.references() if (m := one()) is not None]
        if found is None or len(modules) != 1:
            return None
        (ddp,) = modules
        names = [
            name
            for name, one in ddp.module.named_parameters()
            if one.requires_grad and name not in ddp.parameters_to_ignore
        ]
        places = [int(one) for one in found[1].split()[:_MOST_NAMES]]
        return [names[n] for n in places if n < len(names)]

    def in_backward(self) -> Any:
        """Return the module of the gradient that this thread is accumulating; None: unknown.

        It is also unknown in the first iteration under ``static_graph``: there all buckets are
        issued at the end of the backward.
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
