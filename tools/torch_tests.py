"""torch's own distributed tests, untraced and traced: every test must come out the same.

    python tools/torch_tests.py                                # those that come in torch's wheel
    python tools/torch_tests.py --tests ~/pytorch/test         # and a checkout's test/distributed
    python tools/torch_tests.py 'distributed_test*' --markdown

A test runs untraced first. One that passes must pass traced, too, and the aligner may find nothing
in its logs but what the test does on purpose: ``tools/torch_test_parts/on_purpose.py`` lists that.
A test that does not pass traced is tried twice more. Results stay in ``--work``: what is there
already is not run again. The tests need ``expecttest`` (``pip install expecttest``). Exit status: 1
if a test differs or hangs traced, or if findings and the list differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from glob import escape
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from collectrace.align import align
from collectrace.errors import LogError
from collectrace.log_folder import RUN_ID
from tools.torch_test_parts.on_purpose import Purpose, purpose

ROOT: Final = Path(__file__).resolve().parents[1]

ATTEMPTS: Final = 3
"""Of a test that passes untraced and not traced: on a busy machine some fail now and then."""

COLUMNS: Final = (
    "tests", "passed untraced", "passed traced", "of them not at once", "differ", "hung",
    "aligned", "unknown", "nothing recorded",
    "wrong on purpose", "contrary to the list",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one module."""

    name: str
    module: str
    folders: tuple[Path, ...] = ()
    """Where it and what it imports lie."""
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Judged:
    """One test that passed untraced."""

    name: str
    outcomes: list[str]
    """Traced, one for each attempt."""
    found: list[tuple[str, str]] = field(default_factory=list)
    """Kind and headline of each error that the aligner finds in the logs of the last attempt."""
    statuses: set[str] = field(default_factory=set)
    """Of its runs."""
    purpose: Purpose | None = None
    """What it does wrong on purpose."""

    @property
    def is_as_listed(self) -> bool:
        """Whether what was found is what the test does on purpose."""
        if self.purpose is None or not self.outcomes or self.outcomes[-1] != "passed":
            return not self.found
        return {kind for kind, _ in self.found} == {self.purpose.kind}


def suites(tests: Path | None) -> Iterator[Suite]:
    """All there are: those of the wheel, and the files of a checkout."""
    for ranks in (2, 3):
        yield Suite(
            f"distributed_test, {ranks} ranks",
            "tools.torch_test_parts.wheel_distributed",
            environment={"WORLD_SIZE": str(ranks)},
        )
    yield Suite("RPC and DDP under autograd", "tools.torch_test_parts.wheel_rpc")
    if tests is not None:
        for file in sorted((tests / "distributed").rglob("test_*.py")):
            name = str(file.relative_to(tests))
            yield Suite(name, file.stem, (file.parent, tests / "distributed", tests))


def _is_wanted(name: str, only: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in only)


def run(suite: Suite, only: Sequence[str], work: Path, timeout: float, attempt: int) -> None:
    """Run tests of a suite by patterns of their names; ``attempt`` 0 is untraced.

    Those that have a result are not run again.
    """
    kind = f"traced-{attempt}" if attempt else "untraced"
    results = work / f"{kind}.jsonl"
    folders = (*suite.folders, ROOT)
    environment = {
        **os.environ, "BACKEND": "gloo", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
        "OMP_NUM_THREADS": "1", "COLLECTRACE": "", **suite.environment,
        "PYTHONPATH": os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")]),
    }  # fmt: skip
    command = [sys.executable, "-m", "tools.torch_test_parts.runner", suite.module]
    command += ["--folder", str(work / kind), "--timeout", str(timeout)]
    work.mkdir(parents=True, exist_ok=True)
    with (work / f"{kind}.err").open("a") as errors, tempfile.NamedTemporaryFile("w+") as file:
        listed = subprocess.run(
            [*command, "--list"], env=environment, stdout=subprocess.PIPE, stderr=errors,
            text=True, check=False,
        )  # fmt: skip
        known = read(results)
        left = [n for n in listed.stdout.split() if n not in known and _is_wanted(n, only)]
        if not left:
            return
        file.write("\n".join(left))
        file.flush()
        command += ["--names", file.name, *(["--traced"] if attempt else [])]
        with results.open("a") as out:
            subprocess.run(command, env=environment, stdout=out, stderr=errors, check=False)


def read(results: Path) -> dict[str, dict[str, Any]]:
    """What the runner wrote, by test."""
    if not results.exists():
        return {}
    lines = map(json.loads, results.read_text().splitlines())
    return {line["name"]: line for line in lines}


def judge(suite: Suite, only: Sequence[str], work: Path, timeout: float) -> list[Judged]:
    """Run a suite untraced, then traced what passed, and align its logs."""
    run(suite, only, work, timeout, 0)
    passed = [name for name, told in read(work / "untraced.jsonl").items()
              if told["outcome"] == "passed" and _is_wanted(name, only)]  # fmt: skip
    tests = [Judged(name, [], purpose=purpose(suite.name, name)) for name in passed]
    for attempt in range(1, ATTEMPTS + 1):
        left = [test for test in tests if test.outcomes[-1:] != ["passed"]]
        if left:
            run(suite, [escape(test.name) for test in left], work, timeout, attempt)
        told = read(work / f"traced-{attempt}.jsonl")
        for test in left:
            test.outcomes.append(told.get(test.name, {}).get("outcome", "crashed"))
    for test in tests:
        _align(test, work / f"traced-{len(test.outcomes)}" / test.name / "logs")
    return tests


def _align(test: Judged, logs: Path) -> None:
    runs = [run.name for run in sorted(logs.glob("*")) if RUN_ID.fullmatch(run.name)]
    for run_id in runs:
        try:
            alignment = align(logs, run=run_id)
        except LogError as problem:
            test.found.append(("cannot be read", str(problem)))
            continue
        test.statuses.add(alignment.status)
        test.found += [
            (finding.kind, f"{finding.code}: {finding.headline}")
            for finding in alignment.findings
            if finding.severity == "error"
        ]
        if alignment.internal_errors:
            test.found.append(("internal error", str(alignment.internal_errors)))


def counts(tests: Iterable[Judged], total: int) -> Counter[str]:
    """A row of the table."""
    row: Counter[str] = Counter(tests=total)
    for test in tests:
        row["passed untraced"] += 1
        has_passed = test.outcomes[-1] == "passed"
        row["passed traced"] += has_passed
        row["of them not at once"] += has_passed and len(test.outcomes) > 1
        row["hung"] += not has_passed and "hung" in test.outcomes
        row["differ"] += not has_passed and "hung" not in test.outcomes
        if not test.is_as_listed:
            row["contrary to the list"] += 1
        elif test.found:
            row["wrong on purpose"] += 1
        elif test.statuses == {"aligned"}:
            row["aligned"] += 1
        else:
            row["unknown" if test.statuses else "nothing recorded"] += 1
    return row


def main(argv: Sequence[str]) -> int:
    """Run the suites and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suites", nargs="*", help="patterns of their names; without one: all")
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of `Class.test`")
    parser.add_argument("--tests", type=Path, help="a torch checkout's folder `test`")
    parser.add_argument("--work", type=Path, default=Path("torch-tests"), help="results and logs")
    parser.add_argument("--timeout", type=float, default=180, help="seconds for one test")
    parser.add_argument("--list", action="store_true", help="only print the suites' names")
    parser.add_argument("--markdown", action="store_true", help="the table of the docs at the end")
    options = parser.parse_args(argv)
    chosen = [
        suite
        for suite in suites(options.tests and options.tests.absolute())
        if not options.suites or any(fnmatch(suite.name, text) for text in options.suites)
    ]
    if options.list:
        print(*(suite.name for suite in chosen), sep="\n")
        return 0
    rows: dict[str, Counter[str]] = {}
    for suite in chosen:
        work = options.work.absolute() / suite.name.replace("/", "_")
        tests = judge(suite, options.only, work, options.timeout)
        total = sum(_is_wanted(name, options.only) for name in read(work / "untraced.jsonl"))
        row = rows[suite.name] = counts(tests, total)
        print(f"{suite.name}: " + ", ".join(f"{row[c]} {c}" for c in COLUMNS if row[c]), flush=True)
        for test in tests:
            _show(test)
    if options.markdown:
        print(markdown(rows))
    all_of_them = sum(rows.values(), Counter[str]())
    return 1 if any(all_of_them[c] for c in ("differ", "hung", "contrary to the list")) else 0


def _show(test: Judged) -> None:
    if test.outcomes != ["passed"]:
        print(f"    {test.name}: traced {', then '.join(test.outcomes)}")
    if not test.is_as_listed:
        print(f"    {test.name}: found {test.found or 'nothing'}, listed {test.purpose}")
    elif test.purpose is not None:
        print(f"    {test.name}: {test.purpose.kind}, for {test.purpose.reason}")
    elif not test.statuses <= {"aligned"}:
        print(f"    {test.name}: {', '.join(sorted(test.statuses))}")


def markdown(rows: dict[str, Counter[str]]) -> str:
    """The table of the docs: a row for each suite of which a test passed."""
    lines = [f"| | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    rows = rows | {"in all": sum(rows.values(), Counter())}
    lines += [
        f"| {name} | {' | '.join(str(row[column]) for column in COLUMNS)} |"
        for name, row in rows.items()
        if row["passed untraced"]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
