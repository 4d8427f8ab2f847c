"""Runs the tests of one module, each in processes of its own, and prints a JSON line for each.

    python -m tools.torch_test_parts.runner MODULE --folder FOLDER [--traced] [--names FILE]

Started by ``tools/torch_tests.py``, which reads what it prints.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import json
import multiprocessing
import os
import select
import shutil
import signal
import sys
import threading
import time
import unittest
from collections.abc import Sequence
from multiprocessing import forkserver  # the module: its functions know the one server there is
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from tools.torch_test_parts.rank_process import OUTPUT, RankProcess, begin


def tests_of(module: ModuleType) -> list[str]:
    """The names of a module's own tests, ``Class.test``."""
    # Not by the module's load_tests(), which torch's have: it wants the module to be the program.
    return [
        f"{name}.{test}"
        for name, kind in vars(module).items()
        if isinstance(kind, type)
        and issubclass(kind, unittest.TestCase)
        and kind.__module__ == module.__name__
        for test in unittest.defaultTestLoader.getTestCaseNames(kind)
    ]


def run(module: ModuleType, name: str, folder: Path, timeout: float, *, traced: bool) -> Any:
    """Run one test in a process group of its own: its outcome, and why it is no better."""
    answer, theirs = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(answer)
        os.setpgid(0, 0)
        _be_the_test(module, name, folder, theirs, traced=traced)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        os._exit(0)  # to take down a forked interpreter, with all of torch, costs a second
    os.close(theirs)
    ended = os.pidfd_open(child)
    has_ended = bool(select.select([ended], [], [], timeout)[0])
    os.close(ended)
    # Its ranks may outlive it, and are of its group.
    for _ in range(2):
        try:
            os.killpg(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            break
    _, status = os.waitpid(child, 0)
    with os.fdopen(answer) as told:
        text = told.read()
    outcome, why = json.loads(text) if text else ("crashed", f"status {status}")
    if not has_ended:
        outcome = "hung"
    return {"name": name, "outcome": outcome, "why": why, "seconds": time.monotonic() - began}


def _be_the_test(module: ModuleType, name: str, folder: Path, answer: int, *, traced: bool) -> None:
    import torch.multiprocessing as mp
    from torch.testing._internal import common_distributed as common

    shutil.rmtree(folder, ignore_errors=True)  # of a run that was ended
    folder.mkdir(parents=True)
    os.environ[OUTPUT] = str(folder / "output.txt")
    os.environ["TMPDIR"] = str(folder)
    os.environ["COLLECTRACE_LOG_DIR"] = str(folder / "logs")
    os.environ["COLLECTRACE"] = "1" if traced else "0"
    begin()
    # It is this process's parent's child, and is asked after as if it were one of this process.
    forkserver._forkserver.ensure_running = lambda: None  # type: ignore[method-assign]
    patch.object(mp, "Process", RankProcess).start()
    patch.object(mp, "set_start_method", lambda *_, **__: None).start()
    common.MultiProcessTestCase._spawn_processes = (  # type: ignore[method-assign]
        lambda self: self._start_processes(RankProcess)
    )
    class_name, _, method = name.partition(".")
    result = unittest.TestResult()
    unittest.TestSuite([getattr(module, class_name)(method)]).run(result)
    bad = [text for _, text in result.errors + result.failures]
    if result.unexpectedSuccesses:
        bad.append("passed unexpectedly")
    outcome = "failed" if bad else "skipped" if result.skipped else "passed"
    why = "\n".join(bad or [text for _, text in result.skipped])
    os.write(answer, json.dumps((outcome, why)).encode())
    os.close(answer)


def main(argv: Sequence[str]) -> int:
    """Run them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("module")
    parser.add_argument("--folder", type=Path, required=True, help="for logs and output")
    parser.add_argument("--traced", action="store_true")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one test")
    parser.add_argument("--names", type=Path, help="one test a line; without it: all")
    parser.add_argument("--list", action="store_true", help="only print the names")
    options = parser.parse_args(argv)
    stdout = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    module = importlib.import_module(options.module)
    names = options.names.read_text().split() if options.names else tests_of(module)
    if options.list:
        print(*names, sep="\n", file=stdout)
        return 0
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([options.module, RankProcess.__module__])
    forkserver.ensure_running()
    for name in names:
        folder = options.folder / name
        told = run(module, name, folder, options.timeout, traced=options.traced)
        print(json.dumps(told), file=stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
