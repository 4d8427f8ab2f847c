"""Find the lines of the user's code in another tool's stacks, by the paths alone.

The rules are those of the tracer's own sites: ``site`` is the innermost frame in the user's own
code, or otherwise the innermost of a library. ``via`` is the library's frame in between. Nothing is
imported here, so every file in an installation folder counts as a library's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

MOST_FRAMES: Final = 8
"""Of the user's code, in a stack."""

_MOST_WALKED: Final = 200
_LONGEST: Final = 4096

_PLUMBING: Final = ("/torch/", "/functorch/", "/torchgen/", "/wrapt/", "/typing_extensions.py",
                    "/collectrace/tracer/")  # fmt: skip
_PACKAGES: Final = ("/site-packages/", "/dist-packages/")

Owner = Literal["torch", "library", "user"]


@dataclass(frozen=True, slots=True)
class Place:
    """The origin of a call."""

    site: str | None = None
    via: str | None = None
    frames: tuple[str, ...] = ()
    """The user's frames, ``path:line function``, innermost first."""
    path: tuple[str, ...] = ()
    """Functions of libraries between them and torch, outermost first."""


NOWHERE: Final = Place()


def place(frames: Sequence[Any]) -> Place:
    """Return the origin of a call by its stack, innermost frame first; skip invalid frames."""
    user: list[str] = []
    site = via = None
    path: list[str] = []
    for frame in frames[:_MOST_WALKED]:
        if frame.__class__ is not dict:
            continue
        file, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
        if not isinstance(file, str) or line.__class__ is not int or not isinstance(name, str):
            continue
        whose, at = owner(file[:_LONGEST]), f"{file[:_LONGEST]}:{line}"
        if whose == "user":
            site = site or at
            user.append(f"{at} {name[:_LONGEST]}")
            if name == "<module>" or len(user) == MOST_FRAMES:
                break
        elif whose == "library" and not user:
            via = via or at
            path.append(name[:_LONGEST])
    if site is None:
        return Place(via)
    return Place(site, via, tuple(user), tuple(_readable_path(path)))


def _readable_path(path: Iterable[str]) -> list[str]:
    """Outermost first, without what decorators make and without repetition."""
    found: list[str] = []
    for name in path:
        if "<" not in name and [name] != found[-1:]:
            found.append(name)
    return found[::-1]


@lru_cache(maxsize=4096)
def owner(path: str) -> Owner:
    """Return the owner of a file's code, by its path on any machine."""
    plain = path.replace("\\", "/")
    if not plain or plain.startswith(("<frozen", "<eval_with_key>", "??")) or plain == "<string>":
        return "torch"
    if "torchinductor" in plain or plain.endswith((".cpp", ".cc", ".c", ".h", ".so")):
        return "torch"
    inside = next((p for p in _PACKAGES if p in plain), None)
    if inside is not None:
        rest = "/" + plain.rpartition(inside)[2]
        return "torch" if rest.startswith(_PLUMBING) else "library"
    if any(part in plain for part in ("/lib/python3", "/lib64/python3", "/torch/distributed/")):
        return "torch"
    return "user"
