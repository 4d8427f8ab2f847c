"""Write tensors and torch's small types, without running a subclass or waiting for a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from collectrace.tracer.values.plain import Row, Written, name_of, number

_MOST_DIMENSIONS: Final = 16

_MOST_GIVEN: Final = 10_000
"""Arguments of a call that are read, including those in lists."""

# The attributes of the C base class: the program's replacements of them do not run.
_base: Final = vars(torch._C.TensorBase)
_shape: Final = _base["shape"].__get__
dtype_of: Final = _base["dtype"].__get__
_device: Final = _base["device"].__get__
_item: Final = _base["item"]
_storage: Final = _base["untyped_storage"]

_PLAIN: Final = torch._C._dispatch_keys(torch.empty(0)).raw_repr()
"""The dispatch keys of a plain tensor in the CPU's memory. It is not sparse, quantized, on a
device, or wrapped by a function transform."""


def dtype_name(dtype: torch.dtype) -> str:
    """Return ``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


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
    """Return those of the plain tensors among the arguments of a call, however deep they lie."""
    return [storage_of(x) for x in _flat(given) if is_tensor(x) and is_plain(x)]


def _flat(given: object) -> Iterator[Any]:
    """What lies in built-in lists, tuples and dictionaries, however deep; at most so many."""
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


def rows(is_pending: Callable[[torch.Tensor], bool]) -> dict[int, Row]:
    """Return the rows of torch's types, by the type's ``id``.

    ``is_pending`` returns whether a call in progress may be writing to a tensor.
    """

    def tensor(x: torch.Tensor) -> Written:
        found: dict[str, Any] = {"type": name_of(type(x))}
        try:
            # Otherwise a mode, such as that of `torch.set_default_device`, would be called.
            with torch._C.DisableTorchFunction():
                _describe(x, found, is_pending)
        except (RuntimeError, NotImplementedError):
            pass  # for example, a nested tensor has no shape: keep what is known so far
        return found

    return {
        id(torch.Tensor): tensor,
        id(torch.nn.Parameter): tensor,
        id(torch.Size): _size,
        id(torch.dtype): lambda x: {"type": "dtype", "value": dtype_name(x)},
        id(torch.device): lambda x: {"type": "device", "value": str(x)},
    }


def _describe(
    x: torch.Tensor, found: dict[str, Any], is_pending: Callable[[torch.Tensor], bool]
) -> None:
    found["dtype"] = dtype_name(dtype_of(x))
    if (device := _device(x)).type != "cpu":
        found["device"] = device.type
    shape = _whole(_shape(x))
    if shape is None:
        return
    found["shape"] = shape
    # Reading the item would run a torch dispatch mode.
    if math.prod(shape) != 1 or not is_plain(x) or torch._C._len_torch_dispatch_stack():
        return
    found["value"] = number(_item(x))
    if is_pending(x):
        found["unsettled"] = True


def _size(x: torch.Size) -> Written:
    shape = _whole(x)
    return {"type": "Size"} if shape is None else {"type": "Size", "shape": shape}


def _whole(shape: torch.Size) -> list[int] | None:
    """Return a shape as a list; None: a dimension is not an int, or there are too many."""
    if len(shape) > _MOST_DIMENSIONS or not all(type(n) is int for n in shape):
        return None
    return list(shape)
