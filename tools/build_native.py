"""Build the code in C and C++ that records calls, as far as this machine can; Python does the rest.

A build hook of hatchling: `pip install .` and `pip install -e .` run it. By hand, in a checkout:

    python tools/build_native.py

The part in C++ is for the torch of this Python. pip builds where there is none, unless it is told
`--no-build-isolation`.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "collectrace/tracer/record/_native.c"
TAP: Final = ROOT / "collectrace/tracer/tap/_tap.cpp"


def target() -> str:
    """Return the file of the part in C that this Python imports, relative to the root."""
    return f"collectrace/tracer/record/_native{sysconfig.get_config_var('EXT_SUFFIX')}"


def build(to: Path, *flags: str) -> str | None:
    """Compile the part in C into this file; return None, or one line on why that is not possible.

    Whoever has loaded an earlier one keeps it.
    """
    return _compile("CC", "cc", ["-O2", *flags, str(SOURCE)], to)


class Torch(NamedTuple):  # not a dataclass: hatchling does not register this module
    """A torch to build the part in C++ against."""

    folder: str
    target: str
    """The file that is imported with this torch, relative to the root."""
    abi: int
    """``_GLIBCXX_USE_CXX11_ABI`` of its build."""

    @classmethod
    def installed(cls) -> Torch | str:
        """Return the torch of this Python; or one line on why there is none."""
        asked = subprocess.run(
            [sys.executable, "-c", _ASK], check=False, capture_output=True, text=True,
            cwd=ROOT,
        )  # fmt: skip
        if asked.returncode:
            return (asked.stderr.splitlines() or ["no torch"])[-1]
        return cls(**json.loads(asked.stdout.splitlines()[-1]))

    def build(self, to: Path, *flags: str) -> str | None:
        """Compile the part in C++ into this file; return as :func:`build`."""
        include, libraries = f"{self.folder}/include", f"{self.folder}/lib"
        return _compile(
            "CXX", "c++",
            ["-std=c++20", "-O2", "-Wl,-z,now", f"-D_GLIBCXX_USE_CXX11_ABI={self.abi}", *flags,
             f"-isystem{include}", f"-isystem{include}/torch/csrc/api/include", str(TAP),
             f"-L{libraries}", "-ltorch_python", "-ltorch_cpu", "-lc10"],
            to,
        )  # fmt: skip


_ASK: Final = """
import json, os, torch
from collectrace.tracer.tap import compiled
print(json.dumps({
    "folder": os.path.dirname(torch.__file__), "abi": int(torch._C._GLIBCXX_USE_CXX11_ABI),
    "target": "collectrace/tracer/tap/" + compiled.path().name,
}))
"""


def _compile(variable: str, usual: str, arguments: list[str], to: Path) -> str | None:
    if not sys.platform.startswith("linux") or sys.implementation.name != "cpython":
        return "it is for CPython on Linux"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "it relies on the GIL, which this Python lacks"
    named = os.environ.get(variable) or sysconfig.get_config_var(variable) or usual
    compiler = shlex.split(named)
    include = sysconfig.get_path("include")
    command = [
        *compiler, "-fPIC", "-shared", "-fvisibility=hidden", f"-I{include}", *arguments,
        "-o", f"{to}.new",
    ]  # fmt: skip
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as problem:
        return f"{compiler[0]}: {problem.strerror}"
    if ran.returncode:
        said = [line for line in ran.stderr.splitlines() if "error" in line]
        return (said or ran.stderr.splitlines() or [f"{compiler[0]} failed"])[0]
    Path(f"{to}.new").replace(to)
    return None


def say(problem: str | None, name: str, language: str = "C") -> None:
    """Say in one line what came of it."""
    told = f"built {name}, which records calls" if problem is None else (
        f"no code in {language}: {problem}")  # fmt: skip
    print(f"collectrace: {told}", file=sys.stderr, flush=True)


def build_all(folder: Path) -> list[str]:
    """Build what is possible, below this folder; return the files, relative to it."""
    taps = folder.glob(f"{TAP.parent.relative_to(ROOT)}/_tap-*.so")
    for source, file in ((SOURCE, folder / target()), *((TAP, tap) for tap in taps)):
        if file.exists() and file.stat().st_mtime < source.stat().st_mtime:
            file.unlink()  # one of an earlier source must not be used
    torch = Torch.installed()
    parts: list[tuple[str, str, Any]] = [("C", target(), build)]
    if isinstance(torch, Torch):
        parts.append(("C++", torch.target, torch.build))
    else:
        say(torch, "", "C++")
    built = []
    for language, name, make in parts:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        problem = make(folder / name)
        say(problem, name, language)
        if problem is None:
            built.append(name)
    return built


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # by hand
    pass
else:

    class NativeHook(BuildHookInterface[Any]):  # type: ignore[misc]
        """Adds the built files to a wheel. In an editable install, they stay beside the source."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if version == "editable":
                build_all(ROOT)
                return
            self.folder = tempfile.TemporaryDirectory(prefix="collectrace-")
            for name in build_all(Path(self.folder.name)):
                build_data["force_include"][str(Path(self.folder.name, name))] = name
                build_data["pure_python"], build_data["infer_tag"] = False, True


if __name__ == "__main__":
    sys.exit(not build_all(ROOT))
