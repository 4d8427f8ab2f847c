"""Find the storages of tensors in a call's arguments, without running a subclass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

_MOST_GIVEN: Final = 10_000
"""Arguments of a call that are read, including those in lists."""

# The method of the C base class: the program's replacement of it does not run.
_storage: Final = vars(torch._C.TensorBase)["untyped_storage"]

_PLAIN: Final = torch._C._dispatch_keys(torch.empty(0)).raw_repr()
"""The dispatch keys of a plain tensor in the CPU's memory. It is not sparse, quantized, on a
device, or wrapped by a function transform."""


def is_tensor(x: object) -> bool:
    """Return whether the type of ``x`` is exactly ``torch.Tensor`` or ``Parameter``."""
    return type(x) is torch.Tensor or type(x) is torch.nn.Parameter


def is_plain(x: torch.Tensor) -> bool:
    """Return whether a tensor (see :func:`is_tensor`) is plain and in the CPU's memory."""
    return not torch._C._dispatch_keys(x).raw_repr() & ~_PLAIN


def storage_of(x: torch.Tensor) -> torch.UntypedStorage:
    """Return the storage of a tensor of exactly one of torch's own classes."""
    with torch._C.DisableTorchFunction():
        found: torch.UntypedStorage = _storage(x)
    return found


def storages(given: object) -> list[torch.UntypedStorage]:
    """Return the storages of the plain tensors in the arguments of a call, nested ones too."""
    return [storage_of(x) for x in _flat(given) if is_tensor(x) and is_plain(x)]


def _flat(given: object) -> Iterator[Any]:
    """Yield the contents of nested built-in lists, tuples and dictionaries, up to a limit."""
    found = [given]
    for _ in range(_MOST_GIVEN):
        if not found:
            return
        x = found.pop()
        if type(x) is list or type(x) is tuple:
            found += x[:_MOST_GIVEN]
        elif type(x) is dict:
            found += list(x.values())
        else:
            yield x
