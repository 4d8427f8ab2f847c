"""Classify code: the user's, a library's, or torch's, which includes Python's and the tracer's."""

from __future__ import annotations

import os
import site as site_packages
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import CodeType
from typing import Final

# A higher number is preferred when one line must be chosen.
TORCH: Final = 0
"""Code of torch, of this package, or of Python and its standard library."""

LIBRARY: Final = 1
"""Code of any other installed package."""

USER: Final = 2

_MAX_CODES: Final = 50_000
"""Code objects remembered. Programs that keep generating code reach it; then all are forgotten."""

_HERE: Final = str(Path(__file__).absolute().parents[__name__.count(".") - 1]) + os.sep
_PACKAGES: Final = tuple(
    os.path.join(path, "")
    for path in {
        *site_packages.getsitepackages(),
        site_packages.getusersitepackages(),
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
    }
)
_STDLIB: Final = tuple(
    os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")
)

# Installed packages that count as torch: they only wrap its functions, or mark them as deprecated.
_PLUMBING: Final = (f"wrapt{os.sep}", "typing_extensions.py")

_FRAMEWORKS: Final = (
    "accelerate", "axolotl", "colossalai", "composer", "deepspeed", "fairscale", "fairseq",
    "fairseq2", "fla", "ignite", "lightning", "lightning_fabric", "llamafactory", "megatron",
    "mmengine", "nemo", "openrlhf", "peft", "pytorch_lightning", "ray", "sglang", "torchft",
    "torchrec", "torchtitan", "torchtune", "transformer_engine", "transformers", "trl", "verl",
    "vllm",
)  # fmt: skip
"""Packages that people run from a checkout: they count as libraries, installed or not. Only files
in the folder of the imported package count: a script in another folder of that name is the
user's."""

_libraries: tuple[str, ...] = ()
"""Folders that the user has named as libraries, with a separator at the end."""


_owners: dict[int, tuple[int, CodeType]] = {}
"""By id of the code object. The object is kept, so that no other object gets its id."""

torch_codes: Final[set[int]] = set()
"""Ids of the code objects of class TORCH, for fast walks over a stack."""


def set_libraries(folders: Iterable[Path]) -> None:
    """Count the code in these folders as a library's, instead of that in the folders before."""
    global _libraries
    _libraries = tuple(os.path.join(os.path.abspath(folder), "") for folder in folders)
    forget()


def forget() -> None:
    """Forget all classifications."""
    torch_codes.clear()
    _owners.clear()


def classify(code: CodeType) -> int:
    """Return the class of a code object: TORCH, LIBRARY or USER."""
    known = _owners.get(id(code))
    if known is not None:
        return known[0]
    if len(_owners) >= _MAX_CODES:
        forget()
    kind = _classify_path(code.co_filename)
    _owners[id(code)] = (kind, code)
    if kind == TORCH:
        torch_codes.add(id(code))
    return kind


def _classify_path(path: str) -> int:
    # "<frozen runpy>", "<string>" and code of traced graphs are not files that a person could open.
    # "<stdin>" and the cells of a notebook are the user's.
    if path.startswith(("<frozen", "<eval_with_key>")) or path == "<string>":
        return TORCH
    if "torchinductor" in path:
        return TORCH
    if path.startswith(_HERE) or torch_root() in path:
        return TORCH
    inside = next((p for p in _PACKAGES if path.startswith(p)), None)
    if inside is None:
        return LIBRARY if _is_library(path) else USER
    if "site-packages" in path or "dist-packages" in path:
        inner = path.rpartition(f"-packages{os.sep}")[2]
        return TORCH if inner.startswith(_PLUMBING) else LIBRARY
    return TORCH if path.startswith(_STDLIB) else LIBRARY


def _is_library(path: str) -> bool:
    """Return whether a file belongs to a library although it is not installed."""
    if path.startswith("<"):
        return False
    path = os.path.abspath(path)
    if path.startswith(_libraries):
        return True
    for name in _FRAMEWORKS:
        if f"{os.sep}{name}{os.sep}" in path:
            folders = getattr(sys.modules.get(name), "__path__", ())
            if any(path.startswith(os.path.join(os.path.abspath(f), "")) for f in folders):
                return True
    return False


def torch_root() -> str:
    """Return the folder of torch's files, with a separator at its end."""
    torch = sys.modules.get("torch")
    path = getattr(torch, "__file__", None)
    # functorch and torchgen are beside it; a checkout of torch can be anywhere.
    return os.path.dirname(path) + os.sep if path else f"{os.sep}torch{os.sep}"
