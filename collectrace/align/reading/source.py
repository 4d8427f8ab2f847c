"""Where rank files lie, and how bytes are had from them: a folder here, or one in a store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol

from collectrace.errors import LogError, NotThere

_DEPTH: Final = 4
"""Folders below the given one that are looked into: a run, or a host and its runs."""


_SUFFIXES: Final = (".jsonl", ".txt")
"""Rank files, and what signal handlers wrote beside them."""


class Blob(Protocol):
    """One file."""

    @property
    def name(self) -> str:
        """Path relative to the folder that was opened, with ``/``."""

    @property
    def size(self) -> int:
        """When it was listed; a live file may have grown since."""

    def read(self, start: int, stop: int) -> bytes:
        """Bytes ``start`` .. ``stop - 1``; fewer where the file ends before."""


@dataclass(frozen=True, slots=True)
class LocalBlob:
    """A file of this machine."""

    name: str
    size: int
    path: Path

    def read(self, start: int, stop: int) -> bytes:
        """See :class:`Blob`."""
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(start)
                parts = []
                while start < stop and (part := file.read(stop - start)):
                    parts.append(part)
                    start += len(part)
                return b"".join(parts)
        except FileNotFoundError:
            raise NotThere(f"{self.path} is gone: renamed or removed by its process") from None
        except OSError as problem:
            raise LogError(f"cannot read {self.path}: {problem.strerror or problem}") from None


@dataclass(frozen=True, slots=True)
class RemoteBlob:
    """A file of a store that fsspec knows."""

    name: str
    size: int
    path: str
    store: Any

    def read(self, start: int, stop: int) -> bytes:
        """See :class:`Blob`."""
        try:
            data = self.store.cat_file(self.path, start=start, end=min(stop, self.size))
        except Exception as problem:  # noqa: BLE001 - stores raise what they like
            raise LogError(f"cannot read {self.path}: {_one_line(problem)}") from None
        return bytes(data)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of rank files, and the name it goes by."""

    label: str
    name: str
    """Its last component."""
    files: list[Blob]
    """Every ``.jsonl`` and ``.txt`` file in it and a few levels below, by name."""
    parent: str | None
    """The folder above, as :func:`open_folder` takes it."""


def open_folder(path: str | os.PathLike[str], depth: int = _DEPTH) -> Folder:
    """List a folder: a path, or a URL that fsspec understands.

    Raises:
        LogError: it is not there, is no folder, or cannot be read.

    """
    text = os.fspath(path)
    return _open_remote(text, depth) if "://" in text else _open_local(Path(text), depth)


def _open_local(path: Path, depth: int) -> Folder:
    try:
        if not path.exists():
            raise NotThere(f"{path}: no such folder; give the log_dir of the run (default: logs)")
        if not path.is_dir():
            raise LogError(f"{path} is a file; give the folder that holds the rank files")
        files = sorted(_walk(path, "", depth, {path.resolve()}), key=lambda blob: blob.name)
        whole = path.resolve()
    except OSError as problem:
        raise LogError(f"cannot read {path}: {problem.strerror or problem}") from None
    return Folder(str(path), whole.name, list(files), str(whole.parent))


def _walk(folder: Path, prefix: str, depth: int, seen: set[Path]) -> Iterator[LocalBlob]:
    for entry in os.scandir(folder):
        name = prefix + entry.name
        try:
            if entry.is_dir():
                real = Path(entry.path).resolve()
                # Links to folders are followed (logs gathered from hosts), each folder once.
                if depth > 0 and real not in seen and not entry.name.startswith("."):
                    seen.add(real)
                    yield from _walk(Path(entry.path), name + "/", depth - 1, seen)
            elif entry.name.endswith(_SUFFIXES) and entry.is_file():
                yield LocalBlob(name, entry.stat().st_size, Path(entry.path))
        except OSError:
            # Renamed or rotated away while we looked, and what took its place is listed by
            # itself; a link to itself; or somebody else's folder (lost+found).
            continue


def _open_remote(url: str, depth: int) -> Folder:
    try:
        import fsspec
    except ImportError:
        raise LogError(
            f"{url} needs fsspec; pip install fsspec and the package of that store"
        ) from None
    try:
        store, root = fsspec.core.url_to_fs(url)
        is_file = store.isfile(root)
        found = {} if is_file else store.find(root, maxdepth=depth + 1, detail=True)
    except Exception as problem:  # noqa: BLE001 - stores raise what they like
        raise LogError(f"cannot read {url}: {_one_line(problem)}") from None
    if is_file:
        raise LogError(f"{url} is a file; give the folder that holds the rank files")
    if not found:
        raise NotThere(f"{url}: no such folder, or nothing in it; give the log_dir of the run")
    root = root.rstrip("/")
    files: list[Blob] = [
        RemoteBlob(name.removeprefix(root).lstrip("/"), int(info.get("size") or 0), name, store)
        for name, info in sorted(found.items())
        if name.endswith(_SUFFIXES)
    ]
    scheme, _, rest = url.rstrip("/").partition("://")
    parent = rest.rpartition("/")[0]
    return Folder(url, PurePosixPath(root).name, files, f"{scheme}://{parent}" if parent else None)


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__
