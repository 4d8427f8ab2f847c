"""Runs the tests that count on other versions of torch, each in an environment of its own.

    tools/compat 2.6.0 2.9.1 2.15.0        # one after the other; then the table, as in the docs
    tools/compat --only records 2.10.0     # one group of tests
    tools/compat --keep 2.9.1              # keep the environment, for another run

A torch comes from PyPI as a CUDA build: 3 to 6 GB to download and up to 9 on disk, which run gloo
on a CPU. An environment is made below --dir and deleted when its version is done, unless it is to
be kept. No part of tools/test: this is run by hand before a release, or when a torch is new.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "records": ("tests/process/test_completeness.py",),
    "seed": ("tests/process/test_join_cases.py", "-k", "test_verdict"),
    "unit": ("tests/unit",),
    "parity": ("tests/process/test_parity.py",),
    "zoo": ("tests/process/test_zoo.py", "-k", "test_verdict and matching and not twin"),
}
"""What is run: pytest's arguments. ``records`` holds each record of each op, field by field, to
what it is on the torch that the project is developed with."""

_LIMIT: Final = 3600
"""Seconds for one group."""

_ROOM: Final = 10 << 30
"""Bytes that must be free on the disk."""

_SHOWN: Final = 6
"""Failures of a group that are listed."""


@dataclass
class Outcome:
    """What came of one group of tests."""

    counts: dict[str, int] = field(default_factory=dict)
    """By pytest's words: passed, failed, skipped, error."""
    why: list[str] = field(default_factory=list)
    """A line per failure."""

    def __str__(self) -> str:
        order = ("passed", "failed", "error", "skipped", "xfailed")
        return ", ".join(f"{self.counts[word]} {word}" for word in order if word in self.counts)


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if anything failed."""
    options = _parser().parse_args(arguments)
    outcomes: dict[tuple[str, str], dict[str, Outcome]] = {}
    for version in options.versions:
        folder = options.dir / f"torch-{version}"
        made = _environment(folder, version, options.python)
        if isinstance(made, str):
            outcomes[version, "-"] = {"set-up": Outcome({"error": 1}, [made])}
        else:
            python = _told(made, "import platform; print(platform.python_version())")
            found = outcomes[version, python] = {}
            for name in options.only or GROUPS:
                found[name] = _run(made, GROUPS[name], options.jobs)
                print(f"torch {version}, {name}: {found[name]}", file=sys.stderr, flush=True)
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(_table(outcomes, options.only or list(GROUPS))))
    bad = [o for found in outcomes.values() for o in found.values() if o.why]
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/compat", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="of torch, such as 2.9.1")
    parser.add_argument(
        "--dir", type=Path, default=Path.home() / ".cache" / "collectrace-compat", metavar="DIR",
        help="where the environments are made (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--python", default=sys.executable, metavar="PROGRAM",
        help="of which the environments are made (default: this one)",
    )  # fmt: skip
    parser.add_argument("--only", action="append", choices=list(GROUPS), help="a group of tests")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    parser.add_argument("--jobs", default="1", metavar="N", help="tests side by side")
    return parser


def _environment(folder: Path, version: str, python: str) -> Path | str:
    """The Python of an environment with this torch and what tests need, or why there is none."""
    program = folder / "bin" / "python"
    done = folder / "set-up"
    if done.exists():
        return program
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if free < _ROOM:
        return f"{folder.parent} has {free >> 30} GiB free; {_ROOM >> 30} are needed"
    for command in (
        [python, "-m", "venv", str(folder)],
        [str(program), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         f"torch=={version}", "-e", f"{ROOT}[dev]"],
    ):  # fmt: skip
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            return (ran.stderr.strip() or ran.stdout.strip()).rpartition("\n")[2]
    done.touch()
    return program


def _told(python: Path, code: str) -> str:
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def _run(python: Path, selected: Sequence[str], jobs: str) -> Outcome:
    command: list[str] = [str(python), "-m", "pytest", "-q", "-rfE", "-n", jobs, *selected]
    command += ["-m", "not slow", "-p", "no:cacheprovider"]
    try:
        ran = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_LIMIT
        )
    except subprocess.TimeoutExpired:
        return Outcome({"error": 1}, [f"not over after {_LIMIT} s"])
    return _read(ran.stdout, ran.stderr)


def _read(output: str, errors: str = "") -> Outcome:
    """What pytest has printed, as counts and a line per failure."""
    last = output.rstrip().rpartition("\n")[2]
    found = re.findall(r"(\d+) (passed|failed|error|skipped|xfailed)", last)
    counts = {word: int(number) for number, word in found}
    why = [
        line.partition(" ")[2]
        for line in output.splitlines()
        if line.startswith(("FAILED ", "ERROR "))
    ]
    if not counts:
        told = (errors.strip() or output.strip()).rpartition("\n")[2]
        return Outcome({"error": 1}, [told or "pytest said nothing"])
    return Outcome(counts, why)


def _table(
    outcomes: dict[tuple[str, str], dict[str, Outcome]], groups: Sequence[str]
) -> Iterator[str]:
    """In Markdown, dated; below it what failed."""
    yield f"{datetime.date.today():%Y-%m-%d}"
    yield ""
    yield "| torch | Python | " + " | ".join(groups) + " |"
    yield "|" + " --- |" * (2 + len(groups))
    for (version, python), found in outcomes.items():
        cells = [str(found.get(group) or "not run") for group in groups]
        yield f"| {version} | {python} | " + " | ".join(cells) + " |"
    for (version, _), found in outcomes.items():
        for group, outcome in found.items():
            for line in outcome.why[:_SHOWN]:
                yield f"torch {version}, {group}: {line}"
            if len(outcome.why) > _SHOWN:
                yield f"torch {version}, {group}: and {len(outcome.why) - _SHOWN} more"


if __name__ == "__main__":
    sys.exit(main())
