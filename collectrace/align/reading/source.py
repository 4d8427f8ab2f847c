"""Find rank files, and read bytes from them.

They are in a folder, local or in a store, or in an archive. A single file represents all files
beside it. A folder of another tool's traces is converted to rank files when it is opened.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final

from collectrace.align.reading import packed
from collectrace.errors import READ_ADVICE, LogError, NotLogs, NotThere, Unreadable
from collectrace.foreign import convert as foreign
from collectrace.foreign import documented
from collectrace.log_folder import PENDING, RANK_FILE, SOURCES, Blob, is_source, rank_file

_DEPTH: Final = 4
"""Levels of folders below the given one that are searched: a run, or a host and its runs."""


_SUFFIXES: Final = (".jsonl", ".txt", ".flight.json", ".flight.pickle", ".flight.pkl")
"""Rank files, and the files of signal handlers and torch's Flight Recorder beside them."""


def _is_log(name: str) -> bool:
    """Return whether a file name belongs in a log folder, which also holds source texts."""
    return name.endswith(_SUFFIXES) or is_source(PurePosixPath(name))


@dataclass(frozen=True, slots=True)
class LocalBlob:
    """A file of this machine."""

    name: str
    size: int
    path: Path

    @property
    def written(self) -> int | None:
        """When it was last written to, ns since 1970; None if it is not known."""
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return None

    @property
    def inode(self) -> int | None:
        """Its number on its file system; None if it is not known."""
        try:
            return self.path.stat().st_ino
        except OSError:
            return None

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
            raise NotThere(f"{self.path} was renamed or removed by its process") from None
        except OSError as problem:
            raise Unreadable(self.path, problem.strerror or str(problem)) from None


@dataclass(frozen=True, slots=True)
class RemoteBlob:
    """A file of a store that fsspec knows."""

    name: str
    size: int
    path: str
    store: Any
    written: int | None = None
    """None: each store reports the time of the last write in another way."""

    def read(self, start: int, stop: int) -> bytes:
        """See :class:`Blob`."""
        try:
            data = self.store.cat_file(self.path, start=start, end=min(stop, self.size))
        except Exception as problem:  # noqa: BLE001 - stores raise what they like
            raise Unreadable(self.path, _one_line(problem)) from None
        return bytes(data)


@dataclass(frozen=True)
class Folder:
    """A folder of rank files, and the name for it in messages."""

    label: str
    name: str
    """Its last component."""
    files: list[Blob]
    """Every rank file, stack dump and source text in it and a few levels below, by name."""
    parent: str | None
    """The folder above, as :func:`open_folder` takes it."""
    file: str | None = None
    """The file that was given as the path; its run is meant."""
    is_fixed: bool = False
    """It was unpacked or converted, and does not change any more."""
    is_far: bool = False
    """Every byte is requested from a rank that is busy with something else."""
    notes: tuple[str, ...] = ()
    """Notes on what was found in it."""
    tool: str | None = None
    """The tool that wrote the converted traces; None: they are original rank files."""
    texts: Callable[[int], Mapping[str, Blob]] = lambda _: {}
    """Source texts that can be requested from a rank, by hash."""

    @cached_property
    def _by_folder(self) -> Mapping[str, Sequence[Blob]]:
        found: dict[str, list[Blob]] = {}
        for blob in self.files:
            for above in PurePosixPath(blob.name).parents:
                found.setdefault(str(above), []).append(blob)
        return found

    def only(self, parts: Collection[str]) -> Folder:
        """Return the same folder with only the files below some of its folders."""
        kept = {blob.name: blob for part in parts for blob in self._by_folder.get(part, ())}
        return replace(self, files=[kept[name] for name in sorted(kept)])


def open_folder(path: str | os.PathLike[str], depth: int = _DEPTH) -> Folder:
    """List a folder: a path, or a URL that fsspec understands; or an archive, or a rank file.

    Raises:
        LogError: it is missing, is none of these, or cannot be read.

    """
    text = os.fspath(path)
    return _open_remote(text, depth) if "://" in text else _open_local(Path(text), depth)


def _open_local(path: Path, depth: int) -> Folder:
    try:
        if not path.exists():
            raise NotThere(f"{path}: no such {_instead(path)}.")
        if not path.is_dir():
            return _open_file(path)
        whole = path.resolve()
        files = _by_name(_walk(path, "", depth, {whole}, packed.Spool()))
        found = Folder(str(path), whole.name, files, str(whole.parent))
        return _or_converted(found, lambda: _others(path, "", depth, {whole}))
    except OSError as problem:
        raise Unreadable(path, problem.strerror or str(problem), READ_ADVICE) from None


def _instead(path: Path) -> str:
    """Return what a path that does not exist would be, and what to give instead."""
    if path.name.removesuffix(packed.GZIP).endswith(".jsonl") and path.parent.is_dir():
        return f"file. Give its folder, {path.parent}"
    return "folder. Give the folder that collectrace wrote to (default: logs)"


def _open_file(path: Path) -> Folder:
    """Open an archive; or the folder of a rank file, recognised by its name or its content."""
    if not path.is_file():
        # Opening a pipe waits for its writer, perhaps forever.
        raise LogError(f"{path} is a pipe or a device. Give the log folder, or a file of it.")
    whole = path.resolve()
    if packed.is_archive(path.name):
        unpacked, note = packed.unpack(path, _is_log)
        stem = path.name.partition(".tar")[0].removesuffix(".tgz")
        notes = (note,) if note else ()
        files = _by_name(unpacked)
        archive = Folder(str(path), stem, files, None, is_fixed=True, notes=notes)
        return _or_converted(archive, lambda: packed.unpack(path).files)
    name = path.name.removesuffix(packed.GZIP)
    if not name.endswith(".jsonl"):
        found = list(_others(path.parent, "", 0, {whole.parent}))
        others = foreign.candidates(found)
        if any(other.file.name == path.name for other in others):
            return _converted(others, str(path.parent), whole.parent.name, found)
        with path.open("rb") as file:
            known = documented.of(file.read(documented.HEAD))
        if known is not None:
            raise LogError(f"{path} is a file of {known.tool}. {known.advice}")
        raise NotLogs(
            f"{path} is neither a rank file (rank00000.jsonl, .jsonl.gz) nor an archive of a log "
            "folder (.tar.gz). Give one of these, or the log folder; unpack other formats first."
        )
    if RANK_FILE.fullmatch(name) is None and whole.parent.name != PENDING:
        # It was renamed; its header names its rank.
        alone = _blob(rank_file(0) + path.name[len(name) :], path, packed.Spool())
        return Folder(str(path), whole.parent.name, [alone], None, is_fixed=path.name != name)
    spool = packed.Spool()
    beside = [*_walk(path.parent, "", 0, {whole.parent}, spool)]
    if (texts := path.parent / SOURCES).is_dir():
        beside += _walk(texts, f"{SOURCES}/", 0, {whole.parent}, spool)
    label = str(path.parent)
    files = _by_name(beside)
    return Folder(label, whole.parent.name, files, str(whole.parent.parent), file=name)


_Other = LocalBlob | RemoteBlob | packed.SpooledBlob | packed.UnreadBlob


def _or_converted(folder: Folder, everything: Callable[[], Iterable[_Other]]) -> Folder:
    """Return a folder; if it has no rank files, another tool's traces among all its files.

    Raises:
        LogError: there are such traces, and none can be read.

    """
    if any(_is_rank_file(blob.name) for blob in folder.files):
        return folder
    found = list(everything())
    others = foreign.candidates(found)
    return _converted(others, folder.label, folder.name, found) if others else folder


def _converted(
    others: Sequence[foreign.Candidate],
    label: str,
    name: str,
    beside: Iterable[_Other],
) -> Folder:
    """Convert another tool's traces to rank files in a temporary file.

    ``beside``: all files in the same place.

    Raises:
        LogError: none of them can be read.

    """
    spool, files = packed.Spool(), list[packed.SpooledBlob]()
    spool.expect(sum(other.file.size for other in others))

    def take(file: str, data: bytes) -> None:
        files.append(spool.take(file, io.BytesIO(data)))

    found = foreign.convert(others, label, take)
    earlier = {f"rank{rank:05d}" for rank in found.earlier}
    named: list[Blob] = [
        replace(f, name=f"{foreign.EARLIER}/{f.name}") if f.name.partition(".")[0] in earlier else f
        for f in files
    ]
    # What the threads did matters only if no call is pending.
    wanted = {*found.idle} - {*found.earlier}
    named += [
        replace(text, name=f"rank{rank:05d}.stacks.txt")
        for text in beside
        if (rank := foreign.rank_of_stacks(text)) in wanted and rank is not None
    ]
    return Folder(
        label, name, named, None, is_fixed=True, notes=tuple(found.notes), tool=found.tool
    )


def _is_rank_file(name: str) -> bool:
    path = PurePosixPath(name)
    return RANK_FILE.fullmatch(path.name) is not None or path.suffix == ".jsonl"


def _others(folder: Path, prefix: str, depth: int, seen: set[Path]) -> Iterator[LocalBlob]:
    """Yield every file that may be another tool's, under any name."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            try:
                if entry.is_dir():
                    real = Path(entry.path).resolve()
                    if depth > 0 and real not in seen and not entry.name.startswith("."):
                        seen.add(real)
                        yield from _others(
                            Path(entry.path), f"{prefix}{entry.name}/", depth - 1, seen
                        )
                elif entry.is_file():
                    yield LocalBlob(prefix + entry.name, entry.stat().st_size, Path(entry.path))
            except OSError:
                continue


def _blob(name: str, path: Path, spool: packed.Spool) -> Blob:
    if name.endswith(packed.GZIP):
        return packed.inflate(name, path, spool)
    return LocalBlob(name, path.stat().st_size, path)


def _by_name(blobs: Iterable[Blob]) -> list[Blob]:
    """Return each file once: if a packed copy is beside it, the longer one counts."""
    found: dict[str, Blob] = {}
    for blob in blobs:
        known = found.get(blob.name)
        if known is None or blob.size > known.size:
            found[blob.name] = blob
    return [found[name] for name in sorted(found)]


def _walk(
    folder: Path, prefix: str, depth: int, seen: set[Path], spool: packed.Spool
) -> Iterator[Blob]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            try:
                bare = name.removesuffix(packed.GZIP)
                is_rank_file = RANK_FILE.fullmatch(entry.name.removesuffix(packed.GZIP))
                if is_rank_file and (why := _in_the_way(entry)):
                    yield packed.UnreadBlob(bare, why)
                elif entry.is_dir():
                    real = Path(entry.path).resolve()
                    # Links to folders are followed (logs gathered from hosts), each folder once.
                    if depth > 0 and real not in seen and not entry.name.startswith("."):
                        seen.add(real)
                        yield from _walk(Path(entry.path), name + "/", depth - 1, seen, spool)
                elif _is_log(bare) and entry.is_file():
                    yield _blob(name, Path(entry.path), spool)
            except OSError:
                # It was renamed meanwhile, and its successor is listed too; or it is a link to
                # itself, or a folder of another user (lost+found).
                continue


def blocked(folder: Path) -> Path | None:
    """Return a folder, or one in it, that this user may not read; None if there is none."""
    try:
        below = [one for one in folder.iterdir() if one.is_dir()]
    except OSError:
        below = []
    return next(
        (one for one in (folder, *below) if one.is_dir() and not os.access(one, os.R_OK | os.X_OK)),
        None,
    )


def _in_the_way(entry: os.DirEntry[str]) -> str:
    """Return why an entry with a rank file's name is not a file; empty if it is one."""
    try:
        if entry.is_file():
            return ""
        if entry.is_dir():
            return "it is a folder"
    except OSError:
        return "it is a link to itself"
    return "it is a link to a missing file" if entry.is_symlink() else "it is a pipe or a device"


_EXTRAS: Final = {"https": "http", "s3a": "s3", "az": "abfs"}
"""Extras of fsspec that are not named like the scheme of the address (its pyproject.toml)."""


def _open_remote(url: str, depth: int) -> Folder:
    try:
        import fsspec
    except ImportError:
        raise LogError(
            f"{url} needs fsspec. Install it, and its package for this store: pip install fsspec"
        ) from None
    try:
        store, root = fsspec.core.url_to_fs(url)
        is_file = store.isfile(root)
        found = {} if is_file else store.find(root, maxdepth=depth + 1, detail=True)
    except ImportError as problem:
        scheme = url.partition(":")[0]
        extra = _EXTRAS.get(scheme, scheme)
        raise LogError(
            f"cannot read {url}: {_one_line(problem)}. Run: pip install 'fsspec[{extra}]'"
        ) from None
    except Exception as problem:  # noqa: BLE001 - stores raise what they like
        raise LogError(
            f"cannot read {url}: {_one_line(problem)}. Check the address and your credentials, or "
            "download the folder."
        ) from None
    if is_file:
        raise LogError(f"{url} is a file. Give the folder that holds the rank files.")
    if not found:
        raise NotThere(f"{url}: no such folder, or an empty one. Give the log_dir of the run.")
    root = root.rstrip("/")
    everything = [
        RemoteBlob(name.removeprefix(root).lstrip("/"), int(info.get("size") or 0), name, store)
        for name, info in sorted(found.items())
    ]
    files: list[Blob] = [blob for blob in everything if _is_log(blob.name)]
    scheme, _, rest = url.rstrip("/").partition("://")
    parent = rest.rpartition("/")[0]
    above = f"{scheme}://{parent}" if parent else None
    return _or_converted(Folder(url, PurePosixPath(root).name, files, above), lambda: everything)


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__
