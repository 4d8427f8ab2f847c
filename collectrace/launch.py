"""Run a script as ``__main__``, as python would, in a process that is already set up.

A script sees what it would see under python:

- ``sys.argv`` and ``sys.path[0]``.
- A module ``__main__`` with ``__file__``, from which spawned children import it, or with
  ``__spec__`` for ``-m``.
- Tracebacks that begin with its own frames, and its own exit status.

Sources: ``runpy._run_module_as_main`` and ``pymain_run_python`` in CPython's Modules/main.c.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import os
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, Protocol, cast

from collectrace.errors import CollectraceError

MAIN: Final = "__main__"


class _CodeLoader(Protocol):
    def get_code(self, fullname: str) -> CodeType | None: ...


@dataclass(frozen=True, slots=True)
class Script:
    """An existing script or module."""

    target: str
    arguments: tuple[str, ...]
    module: bool

    def run(self) -> int:
        """Run it to its end; return 1 if it raised, after printing its traceback.

        Raises:
            SystemExit: as the script raised it.
            KeyboardInterrupt: likewise, its traceback printed; python ends the process by SIGINT.

        """
        try:
            code, namespace = self._load()
            exec(code, namespace)
        except SystemExit:
            raise
        except BaseException as problem:
            # Without the frames of this file: a script has no frames above its own.
            frames = problem.__traceback__
            while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
                frames = frames.tb_next
            sys.excepthook(type(problem), problem.with_traceback(frames), frames)
            if isinstance(problem, KeyboardInterrupt):
                sys.excepthook = _print_nothing
                raise
            return 1
        return 0

    def _load(self) -> tuple[CodeType, dict[str, object]]:
        """Code, and the namespace of a new ``__main__`` that is in place already."""
        file, spec = _whole(self.target), None
        loader: object = SourceFileLoader(MAIN, file)
        # What a package sees of it while it is imported on the way to one of its modules.
        sys.argv = ["-m" if self.module else self.target, *self.arguments]
        if self.module:
            spec = importlib.util.find_spec(self.target)
            if spec is not None and spec.submodule_search_locations is not None:
                spec = importlib.util.find_spec(f"{self.target}.{MAIN}")
        elif _is_plain_file(self.target):
            _first_on_path(str(Path(self.target).resolve().parent))
        else:  # a folder or an archive with a __main__ in it
            _first_on_path(file)
            spec = _main_inside(file)
        if spec is not None:
            file, loader = spec.origin or file, spec.loader
        code = _read(file) if spec is None and not self.module else _code_of(spec, self.target)
        main = ModuleType(MAIN)
        vars(main).update(
            __builtins__=builtins, __file__=file, __loader__=loader,
            __spec__=spec, __cached__=spec and spec.cached, __package__=spec and spec.parent,
        )  # fmt: skip
        if sys.version_info < (3, 14):  # from there on they are made when they are asked for
            vars(main).update(__annotations__={})
        if self.module:
            sys.argv[0] = file
        sys.modules[MAIN] = main
        return code, vars(main)


def _print_nothing(*_: object) -> None:
    """The hook for an exception that has been printed."""


def find(target: str, arguments: Sequence[str], *, module: bool) -> Script:
    """Find a script by its path, or a module by its name, without running it.

    Raises:
        CollectraceError: it does not exist.

    """
    if module:
        if not _importable(target.partition(".")[0]):
            raise CollectraceError(
                f"no module named {target}. Check its name, or run in the folder that holds it."
            )
    elif not Path(target).exists():
        raise CollectraceError(f"{target}: no such script. Name a file, or use -m with a module.")
    elif not _is_plain_file(target) and _main_inside(target) is None:
        raise CollectraceError(f"{target} is a folder without a __main__.py. Name a script.")
    return Script(target, tuple(arguments), module)


def _importable(name: str) -> bool:
    try:
        return bool(name) and importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _whole(path: str) -> str:
    """Return the absolute path, not normalised, as python does."""
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 - Path would tidy it up


def _is_plain_file(target: str) -> bool:
    return Path(target).is_file() and pkgutil.get_importer(target) is None


def _main_inside(target: str) -> ModuleSpec | None:
    return importlib.machinery.PathFinder.find_spec(MAIN, [target])


def _first_on_path(entry: str) -> None:
    # `python -m collectrace` put the working directory there; under -P there is nothing to replace.
    if not sys.flags.safe_path:
        sys.path[0] = entry


def _read(file: str) -> CodeType:
    # No byte code is cached for a script, neither by python nor here.
    with io.open_code(file) as source:
        return compile(source.read(), file, "exec", dont_inherit=True)


def _code_of(spec: ModuleSpec | None, target: str) -> CodeType:
    code = None
    if spec is not None and spec.loader is not None:
        code = cast(_CodeLoader, spec.loader).get_code(spec.name)
    if code is None:
        raise ModuleNotFoundError(f"No module named {target}", name=target)
    return code
