"""Which line of the user's code issues a call, and which library's line stands between.

Every collective pays for the walk over the stack. So whose a code object is gets decided once,
which leaves one dictionary look-up per frame, and a line number is looked for only once per call
site.
"""

from __future__ import annotations

import os
import site as site_packages
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType, TracebackType
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

_codes: dict[int, tuple[int, CodeType]] = {}
"""Class (TORCH, LIBRARY, USER) by id of the code object, which is kept beside it so that no other
gets its id."""

_torch_codes: set[int] = set()
"""Ids of those of class TORCH. They are the innermost frames of every stack, and are skipped by
this shorter way."""


Place = tuple[int, int, int, int]
"""Where a call comes from: id of the code object and offset of the instruction, first of the
innermost user frame, then of the innermost library frame below it; zeros where there is none. On
a stack without a user frame the library's stands in its place. Plain numbers, since one is made
for every collective, as part of the key by which its template is found."""

NOWHERE: Final[Place] = (0, 0, 0, 0)


def classify(code: CodeType) -> int:
    """Whose code it is: TORCH, LIBRARY or USER."""
    known = _codes.get(id(code))
    if known is not None:
        return known[0]
    if len(_codes) >= _MAX_CODES:
        _torch_codes.clear()
        _codes.clear()
    kind = _classify_path(code.co_filename)
    _codes[id(code)] = (kind, code)
    if kind == TORCH:
        _torch_codes.add(id(code))
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
        return USER
    if "site-packages" in path or "dist-packages" in path:
        inner = path.rpartition(f"-packages{os.sep}")[2]
        return TORCH if inner.startswith(_PLUMBING) else LIBRARY
    return TORCH if path.startswith(_STDLIB) else LIBRARY


def torch_root() -> str:
    """The folder of torch's own files, with a separator at its end."""
    torch = sys.modules.get("torch")
    path = getattr(torch, "__file__", None)
    # functorch and torchgen lie beside it; a checkout of torch lies anywhere.
    return os.path.dirname(path) + os.sep if path else f"{os.sep}torch{os.sep}"


def find(frame: FrameType | None) -> Place:
    """The place of the user's code on a stack: among ``frame``, its innermost, and its callers."""
    skipped = _torch_codes
    while frame is not None and id(frame.f_code) in skipped:
        frame = frame.f_back
    via = via_lasti = 0
    known = _codes
    while frame is not None:
        code = id(frame.f_code)
        entry = known.get(code)
        kind = entry[0] if entry is not None else classify(frame.f_code)
        if kind == USER:
            return code, frame.f_lasti, via, via_lasti
        if kind == LIBRARY and not via:
            via = code
            via_lasti = frame.f_lasti
        frame = frame.f_back
    return (via, via_lasti, 0, 0) if via else NOWHERE


def codes(place: Place) -> tuple[CodeType | None, CodeType | None]:
    """The code objects of a place: who keeps the place keeps them, or others may get their ids."""
    site, via = _codes.get(place[0]), _codes.get(place[2])
    return site and site[1], via and via[1]


def is_direct(place: Place) -> bool:
    """Whether the user's own code called torch, and no library between."""
    return not place[2] and _codes.get(place[0], (TORCH,))[0] == USER


def line(code: CodeType, lasti: int) -> str:
    """``path:line`` of an instruction, given by its offset ``lasti``; the path is absolute."""
    number = code.co_firstlineno
    for start, end, candidate in code.co_lines():
        if start <= lasti < end and candidate is not None:
            number = candidate
            break
    return _told(code, number)


def _told(code: CodeType, number: int) -> str:
    path = code.co_filename
    # A script started as `python train.py` has a relative name on some versions.
    return f"{path if path.startswith('<') else os.path.abspath(path)}:{number}"


def resolve(place: Place) -> tuple[str | None, str | None]:
    """``site`` and ``via`` of a place, as in a ``call`` record."""
    site, via = codes(place)
    return site and line(site, place[1]), via and line(via, place[3])


def public_function(frame: FrameType | None) -> str | None:
    """The outermost public function of distributed_c10d.py between the user's code and ``frame``.

    None where there is none.
    """
    name: str | None = None
    while frame is not None and classify(frame.f_code) == TORCH:
        code = frame.f_code
        if code.co_filename.endswith("distributed_c10d.py") and not code.co_name.startswith("_"):
            name = code.co_name
        frame = frame.f_back
    return name


def here(depth: int = 1) -> tuple[str | None, str | None]:
    """``site`` and ``via`` of the line that the calling thread is in.

    The walk begins ``depth`` frames above the caller of this function: it may leave out frames
    that are known to be the tracer's.
    """
    return resolve(find(sys._getframe(depth + 1)))


def of_traceback(traceback: TracebackType | None) -> str | None:
    """``path:line`` of a traceback's innermost user frame, else of its innermost outside torch.

    Where there is nothing but torch, of the innermost of all.
    """
    best: str | None = None
    whose = TORCH
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if (kind := classify(code)) >= whose:
            best, whose = _told(code, traceback.tb_lineno), kind
        traceback = traceback.tb_next
    return best
