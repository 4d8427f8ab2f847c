"""Where a command writes: standard output, or a file that is either whole or as it was before."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, TextIO, cast

from collectrace import file_modes
from collectrace.errors import CollectraceError
from collectrace.printable import clean

STDOUT: Final = "-"
"""In place of a file's name: standard output."""


def complain(stderr: TextIO, problem: object) -> None:
    """Write one line about a problem, on standard error.

    What a problem says may come from a log, a file's name or an argument. Nobody may be there to
    read it, which changes nothing: the exit status tells.
    """
    say(stderr, f"collectrace: {problem}")


def say(stderr: TextIO, line: str) -> None:
    """Write a line on standard error, such as any terminal can be given."""
    with contextlib.suppress(OSError):
        print(" ".join(clean(line).split()), file=stderr, flush=True)


def lossy(stream: TextIO) -> None:
    """Let a stream show ``?`` for what its encoding lacks, as that of an ASCII terminal does."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")


def check(option: str, name: str) -> None:
    """Find out early that a file cannot be written, before the work that is to end in it.

    Args:
        option: the option that names the file, for the message.
        name: the file, or ``-``.

    Raises:
        CollectraceError: it is a folder, or lies in none that can be written to.

    """
    if name == STDOUT or _is_device(Path(name)):
        return
    path = _through_link(Path(name))
    if path.is_dir():
        raise CollectraceError(f"{option} {name}: that is a folder. Name a file in it.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise CollectraceError(
            f"{option} {name}: {path.parent} is not a writable folder. Name another file."
        )


def check_file(option: str, name: str) -> None:
    """As :func:`check`, of an option that takes a file only.

    Raises:
        CollectraceError: it cannot be written, or is standard output.

    """
    if name == STDOUT:
        raise CollectraceError(f"{option} {name}: it is written again and again. Name a file.")
    check(option, name)


def write_to(name: str, stdout: TextIO, write: Callable[[TextIO], object]) -> None:
    """Open what ``name`` says, have ``write`` write to it, and close it; ``*.gz`` is packed.

    A file gets its name only once it is whole; until then, and if anything fails, what had that
    name before stays. A reader that has seen enough (``| head``) is no failure.

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
        where = "standard output" if name == STDOUT else name
        raise CollectraceError(f"{where}: {problem.strerror or problem}") from problem


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
    """As gzip packs it, without a time in it: the same text gives the same file."""
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
    """Whether it is a pipe or a device, such as ``/dev/stderr``: written to, never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _through_link(path: Path) -> Path:
    """What a symbolic link points to; the link itself is to stay."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextlib.contextmanager
def surviving_reader(stream: TextIO) -> Iterator[None]:
    """For writing to a stream whose reader may leave early, which is no failure.

    Flushes at the end. Once anything failed, the stream leads nowhere: Python flushes standard
    output again when it exits, and would complain then.

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
