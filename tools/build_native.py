"""Build the code in C that records calls, if this machine can; without it the code in Python does.

A build hook of hatchling: `pip install .` and `pip install -e .` run it. By hand, in a checkout:

    python tools/build_native.py
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "collectrace/tracer/record/_native.c"


def target() -> str:
    """Return the file that this Python imports, relative to the root."""
    return f"collectrace/tracer/record/_native{sysconfig.get_config_var('EXT_SUFFIX')}"


def build(to: Path, *flags: str) -> str | None:
    """Compile the code into this file; return None, or one line on why that is not possible.

    Whoever has loaded an earlier one keeps it.
    """
    if not sys.platform.startswith("linux") or sys.implementation.name != "cpython":
        return "it is for CPython on Linux"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "it relies on the GIL, which this Python lacks"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    include = sysconfig.get_path("include")
    command = [
        *compiler, "-O2", "-fPIC", "-shared", "-fvisibility=hidden", *flags, f"-I{include}",
        str(SOURCE), "-o", f"{to}.new",
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


def say(problem: str | None, name: str) -> None:
    """Say in one line what came of it."""
    told = f"built {name}, which records calls" if problem is None else f"no code in C: {problem}"
    print(f"collectrace: {told}", file=sys.stderr, flush=True)


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # by hand
    pass
else:

    class NativeHook(BuildHookInterface[Any]):  # type: ignore[misc]
        """Adds the built file to a wheel; leaves it beside its source for an editable install."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            name = target()
            if version == "editable":
                problem = build(ROOT / name)
                if problem is not None:  # one of an earlier source must not be used
                    (ROOT / name).unlink(missing_ok=True)
            else:
                self.folder = tempfile.TemporaryDirectory(prefix="collectrace-")
                built = Path(self.folder.name, "native.so")
                problem = build(built)
                if problem is None:
                    build_data["force_include"][str(built)] = name
                    build_data["pure_python"], build_data["infer_tag"] = False, True
            say(problem, name)


if __name__ == "__main__":
    problem = build(ROOT / target(), *sys.argv[1:])
    say(problem, target())
    sys.exit(problem is not None)
