"""Whose code a function is: the user's, a library's, or torch's and what counts as such."""

from __future__ import annotations

import os
import site as site_packages
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import CodeType
from typing import Final

# In the order in which a line of theirs is preferred, the last one first.
TORCH: Final = 0
"""Code of torch, of this package, or of Python and its standard library."""

LIBRARY: Final = 1
"""Code of any other installed package."""

USER: Final = 2

_MAX_CODES: Final = 50_000
"""Code objects remembered. Programs that generate code without end reach it, and start over."""

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

# Installed packages whose frames count as torch's: they only wrap its functions or mark them as
# deprecated.
_PLUMBING: Final = (f"wrapt{os.sep}", "typing_extensions.py")

_FRAMEWORKS: Final = (
    "accelerate", "axolotl", "colossalai", "composer", "deepspeed", "fairscale", "fairseq",
    "fairseq2", "fla", "ignite", "lightning", "lightning_fabric", "llamafactory", "megatron",
    "mmengine", "nemo", "openrlhf", "peft", "pytorch_lightning", "ray", "sglang", "torchft",
    "torchrec", "torchtitan", "torchtune", "transformer_engine", "transformers", "trl", "verl",
    "vllm",
)  # fmt: skip
"""Packages that people run from a checkout, installed or not: their lines are a library's. Only
what lies in the folder of the package as it was imported: a script in a folder of that name is its
author's own."""

_libraries: tuple[str, ...] = ()
"""Folders of libraries that the user has named, with a separator at the end."""


_owners: dict[int, tuple[int, CodeType]] = {}
"""By id of the code object, which is kept beside it so that no other gets its id."""

torch_codes: Final[set[int]] = set()
"""Ids of those of class TORCH, for who looks at every frame of a stack."""


def set_libraries(folders: Iterable[Path]) -> None:
    """Count the code in these folders as a library's, too, and no longer that in earlier ones."""
    global _libraries
    _libraries = tuple(os.path.join(os.path.abspath(folder), "") for folder in folders)
    forget()


def forget() -> None:
    """Ask anew whose code is."""
    torch_codes.clear()
    _owners.clear()


def classify(code: CodeType) -> int:
    """Whose code it is: TORCH, LIBRARY or USER."""
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
    # "<frozen runpy>", "<string>", the code of a traced graph: no file a person could open.
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
    """Whether a file that is not installed is a library's all the same."""
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
    """The folder of torch's own files, with a separator at its end."""
    torch = sys.modules.get("torch")
    path = getattr(torch, "__file__", None)
    # functorch and torchgen lie beside it; a checkout of torch lies anywhere.
    return os.path.dirname(path) + os.sep if path else f"{os.sep}torch{os.sep}"
