"""The output of commands: standard output, or files that are replaced atomically."""

from __future__ import annotations

import contextlib
import difflib
import errno
import gzip
import io
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, TextIO, cast

from collectrace import file_modes
from collectrace.errors import CollectraceError
from collectrace.printable import clean

STDOUT: Final = "-"
"""The name of a file that means standard output."""


def complain(stderr: TextIO, problem: object) -> None:
    """Write one line about a problem, on standard error.

    Its text may come from a log, a file's name or an argument, so it is cleaned. If standard error
    is closed, nothing happens: the exit status shows the problem.
    """
    say(stderr, f"collectrace: {problem}")


def say(stderr: TextIO, line: str) -> None:
    """Write a line on standard error, cleaned for any terminal."""
    with contextlib.suppress(OSError):
        print(" ".join(clean(line).split()), file=stderr, flush=True)


_ALIKE: Final = 0.7
"""How similar a word is to what it is taken for, from 0 to 1."""


def meant(word: str, known: Iterable[str]) -> str:
    """Return `` Did you mean align?``; empty if nothing is like the word."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=_ALIKE)
    return f" Did you mean {found[0]}?" if found else ""


def lossy(stream: TextIO) -> None:
    """Make a stream print ``?`` for characters that its encoding lacks."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")


def check(option: str, name: str) -> None:
    """Check that a file can be written, before the work begins.

    Args:
        option: the option that names the file, for the message.
        name: the file, or ``-``.

    Raises:
        CollectraceError: it is a folder, or its folder does not exist or is not writable.

    """
    if name == STDOUT or _is_device(Path(name)):
        return
    path = _through_link(Path(name))
    if path.is_dir():
        raise CollectraceError(f"{option} {name}: that is a folder. Name a file in it.")
    if not path.parent.exists():
        raise CollectraceError(
            f"{option} {name}: the folder {path.parent} does not exist. Create it, "
            "or name another file."
        )
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise CollectraceError(
            f"{option} {name}: {path.parent} is not a writable folder. Name another file."
        )


def check_file(option: str, name: str) -> None:
    """Check as :func:`check` does, for an option that takes a file only.

    Raises:
        CollectraceError: it cannot be written, or is standard output.

    """
    if name == STDOUT:
        raise CollectraceError(f"{option} {name}: it is written again and again. Name a file.")
    check(option, name)


def write_to(name: str, stdout: TextIO, write: Callable[[TextIO], object]) -> None:
    """Open the file ``name``, call ``write`` with it, and close it; ``*.gz`` is packed.

    The file is written under another name and renamed when it is whole; if anything fails, an older
    file is kept. A reader that leaves early (``| head``) is not a failure.

    Args:
        name: a file, or ``-`` for ``stdout``.
        stdout: the command's standard output.
        write: is given the open stream.

    Raises:
        CollectraceError: it could not be written; the message says what and why.

    """
    try:
        if name == STDOUT:
            with surviving_reader(stdout):
                write(stdout)
        elif _is_device(Path(name)):
            with os.fdopen(opened(Path(name)), "w", encoding="utf-8") as out, surviving_reader(out):
                os.set_blocking(out.fileno(), True)
                write(out)
        else:
            _replace(_through_link(Path(name)), write)
    except OSError as problem:
        what = problem.strerror or problem
        where, do = name, "Name another file."
        if name == STDOUT:
            where, do = "standard output", "Name a file instead."
        raise CollectraceError(f"{where}: it cannot be written ({what}). {do}") from problem


def _replace(path: Path, write: Callable[[TextIO], object]) -> None:
    # Beside it: only within one file system does a new name replace an old one in one step.
    part = path.with_name(f".collectrace-{os.urandom(4).hex()}.part")
    try:
        with open(part, "xb", opener=file_modes.opener) as raw:
            if path.exists():
                part.chmod(path.stat().st_mode)
            with _packed(raw) if path.name.endswith(".gz") else _plain(raw) as out:
                write(out)
            raw.flush()
            os.fsync(raw.fileno())  # a network's disk may only now say that it is full
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _plain(raw: BinaryIO) -> Iterator[TextIO]:
    out = io.TextIOWrapper(raw, encoding="utf-8")
    yield out
    out.detach()  # flushes, and leaves the file open


@contextlib.contextmanager
def _packed(raw: BinaryIO) -> Iterator[TextIO]:
    """Yield a gzip stream without a timestamp, so that the same text gives the same file."""
    with (
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed,
        io.TextIOWrapper(cast(BinaryIO, packed), encoding="utf-8") as out,
    ):
        yield out


def opened(path: Path) -> int:
    """Return a descriptor that writes to the end of a file, a pipe or a device, without waiting.

    Raises:
        OSError: it cannot be opened, or is a pipe that nobody reads.

    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags, file_modes.of_files())
    except OSError as problem:
        if problem.errno == errno.ENXIO:
            raise OSError(problem.errno, "nobody reads from it") from None
        raise


def _is_device(path: Path) -> bool:
    """Return whether it is a pipe or a device, such as ``/dev/stderr``: never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _through_link(path: Path) -> Path:
    """Return the target of a symbolic link, so that the link itself stays."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextlib.contextmanager
def surviving_reader(stream: TextIO) -> Iterator[None]:
    """Allow the reader of a stream to leave early; flush the stream at the end.

    After a failure the stream discards everything: Python flushes standard output again at exit,
    and would print an error.

    Raises:
        OSError: any other failure to write, such as a full disk.

    """
    try:
        try:
            yield
        finally:
            stream.flush()
    except (BrokenPipeError, SystemExit):  # rich turns the one into the other
        _lead_nowhere(stream)
    except OSError:
        _lead_nowhere(stream)
        raise


def _lead_nowhere(stream: TextIO) -> None:
    with contextlib.suppress(OSError):  # no file behind it: nobody flushes it again
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
