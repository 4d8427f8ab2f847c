"""Write tensors and torch's small types, without running a subclass or waiting for a device."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from collectrace.tracer.record.storages import is_plain
from collectrace.tracer.values.plain import Row, Written, name_of, number

_MOST_DIMENSIONS: Final = 16

# The attributes of the C base class: the program's replacements of them do not run.
_base: Final = vars(torch._C.TensorBase)
_shape: Final = _base["shape"].__get__
dtype_of: Final = _base["dtype"].__get__
_device: Final = _base["device"].__get__
_item: Final = _base["item"]


def dtype_name(dtype: torch.dtype) -> str:
    """Return ``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def rows(is_pending: Callable[[torch.Tensor], bool]) -> dict[int, Row]:
    """Return the rows of torch's types, by the type's ``id``.

    ``is_pending`` returns whether a call in progress may be writing to a tensor.
    """

    def tensor(x: torch.Tensor) -> Written:
        found: dict[str, Any] = {"type": name_of(x)}
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
