"""Write a copy of a folder of logs with placeholders: complete, or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from collectrace import config, source_text
from collectrace.errors import CollectraceError
from collectrace.log_folder import PENDING, SOURCES, Blob, is_source
from collectrace.records import SourceFile
from collectrace.redact import structure
from collectrace.redact.lines import ENVIRONMENT, MESSAGES, Lines
from collectrace.redact.names import Names

PARTS: Final = (
    config.ARGUMENTS, ENVIRONMENT, MESSAGES, config.SOURCE, config.IN_VARIABLES,
)  # fmt: skip
"""Parts that can be kept unchanged."""

_CHUNK: Final = 4 << 20

_RANK_FILE: Final = re.compile(r"(rank\d{1,9}(?:\+\d+)?)(?:\.(\d{1,9}))?\.jsonl")
_PROVISIONAL: Final = re.compile(r"(.+)-(\d+-\d+)(?:\.(\d{1,9}))?\.jsonl")
_BESIDE: Final = re.compile(r"rank\d{1,9}\.(?:(stacks|ends)\.txt|flight\.json)")


@dataclass
class Redacted:
    """The result of a copy."""

    files: int = 0
    left_out: list[str] = field(default_factory=list)
    """Names of files that were left out."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """The original text of each placeholder."""


@dataclass(frozen=True, slots=True)
class _Log:
    """One file of lines."""

    blob: Blob
    path: PurePosixPath
    """Its path in the copy."""
    log: str
    """Its log and its order in it."""
    ordinal: int


def redact(
    files: Sequence[Blob], to: Path, keep: Collection[str] = (), *, drop_source: bool = False,
    map_file: Path | None = None,
) -> Redacted:  # fmt: skip
    """Write a copy of logs to a new folder.

    Args:
        files: the logs.
        to: the folder. It appears only when it is complete.
        keep: words of :data:`PARTS`.
        drop_source: leave the structure of the program's text out, too.
        map_file: where the map from placeholders to what they stand for goes; only its owner can
            read it.

    Raises:
        CollectraceError: the target exists, or there is nothing to redact.

    """
    if to.is_symlink() or (to.exists() and (not to.is_dir() or any(to.iterdir()))):
        raise CollectraceError(f"{to} exists already. Name a new folder.")
    if map_file is not None and map_file.exists():
        raise CollectraceError(f"{map_file} exists already. Name a new file.")
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_name(f".collectrace-{os.urandom(8).hex()}.part")
    part.mkdir()
    try:
        writing = _Writing(files, part, keep, drop_source=drop_source)
        done = writing.write()
        if map_file is not None:
            _write_map(map_file, done.replaced)
        part.rename(to)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return done


def _write_map(path: Path, replaced: Mapping[str, str]) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogatepass") as out:
            json.dump(replaced, out, indent=1)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


class _Writing:
    """A copy that is being written."""

    def __init__(
        self, files: Sequence[Blob], to: Path, keep: Collection[str], *, drop_source: bool
    ) -> None:
        self._files, self._to, self._keep = files, to, keep
        self._names = Names(keeps_names=config.SOURCE in keep, keeps_messages=MESSAGES in keep)
        taken_out = {config.ARGUMENTS, config.IN_VARIABLES} - {*keep}
        self._drops_source = drop_source and config.SOURCE not in keep
        if self._drops_source:
            taken_out.add(config.SOURCE)
        self._lines = Lines(self._names, keep, taken_out, self._new_text)
        self._texts: dict[str, list[Blob]] = {}
        """By hash."""
        self._hashes: dict[tuple[str, bool], str] = {}
        """By hash and whether it is public, the new one."""
        self._key = secrets.token_bytes(16)
        self._done = Redacted()

    def write(self) -> Redacted:
        """Write all files.

        Raises:
            CollectraceError: there is no log among them.

        """
        logs: list[_Log] = []
        beside: list[Blob] = []
        for blob in self._files:
            path = PurePosixPath(blob.name)
            if is_source(path):
                self._texts.setdefault(path.stem, []).append(blob)
            elif (log := self._log(blob, path)) is not None:
                logs.append(log)
            else:
                beside.append(blob)
        if not logs:
            raise CollectraceError("there are no rank files to redact. Give the log_dir of a run.")
        logs.sort(key=lambda log: (log.log, log.ordinal))
        for log in logs:
            self._create(log.path, self._changed(log))
        changed = self._lines.programs.solve()
        for log in logs:
            if log.log in changed:
                self._digest_anew(log)
        for blob in beside:
            self._beside(blob)
        self._done.replaced = self._names.map()
        return self._done

    def _log(self, blob: Blob, path: PurePosixPath) -> _Log | None:
        """Return the copy of a file of lines; None: it is not one."""
        folder = self._folder(path.parent)
        if path.parent.name == PENDING and (found := _PROVISIONAL.fullmatch(path.name)):
            stem, ordinal = f"{self._names.host(found[1])}-{found[2]}", found[3]
        elif found := _RANK_FILE.fullmatch(path.name):
            stem, ordinal = found[1], found[2]
        elif path.suffix == ".jsonl":
            stem, ordinal = self._names.of("log", path.stem), None
        else:
            return None
        name = f"{stem}.{ordinal}.jsonl" if ordinal else f"{stem}.jsonl"
        return _Log(blob, folder / name, str(folder / stem), int(ordinal or 0))

    def _folder(self, path: PurePosixPath) -> PurePosixPath:
        return PurePosixPath(*(self._names.run(part) for part in path.parts))

    def _create(self, path: PurePosixPath, parts: Iterator[bytes]) -> None:
        target = self._to / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            out.writelines(parts)
        self._done.files += 1

    def _changed(self, log: _Log) -> Iterator[bytes]:
        for line, end in _lines(log.blob):
            new = self._lines.line(line, log.log) if line else b""
            if new is not None:
                yield new + end

    def _digest_anew(self, log: _Log) -> None:
        path = self._to / log.path
        part = path.with_name(f"{path.name}.part")
        with path.open("rb") as lines, part.open("xb") as out:
            for line in lines:
                text = line.rstrip(b"\n")
                out.write(self._lines.with_new_digests(text, log.log) + line[len(text) :])
        part.replace(path)

    def _new_text(self, file: SourceFile, public: bool) -> str:
        """Write the text of a file, or its structure; return the hash of what was written.

        A missing text gets its own hash, so that it still differs from others.
        """
        known = self._hashes.get((file.sha256, public))
        if known is not None:
            return known
        new = hmac.new(self._key, file.sha256.encode(), "sha256").hexdigest()
        blobs = self._texts.get(file.sha256, [])
        if blobs and not (self._drops_source and not public):
            data = blobs[0].read(0, blobs[0].size)
            if hashlib.sha256(data).hexdigest() == file.sha256:
                text = data if public or config.SOURCE in self._keep else self._structure(data)
                if text is not None:
                    new = hashlib.sha256(text).hexdigest()
                    self._write_text(blobs, new, text)
        self._hashes[file.sha256, public] = new
        return new

    def _write_text(self, blobs: Sequence[Blob], sha256: str, text: bytes) -> None:
        for blob in blobs:
            folder = self._folder(PurePosixPath(blob.name).parent.parent) / SOURCES
            if not (self._to / folder / f"{sha256}.py").exists():
                self._create(folder / f"{sha256}.py", iter([text]))

    def _structure(self, data: bytes) -> bytes | None:
        text = source_text.decode(data)
        found = structure.of(text, self._names) if text is not None else None
        return None if found is None else found.encode()

    def _beside(self, blob: Blob) -> None:
        path = PurePosixPath(blob.name)
        found = _BESIDE.fullmatch(path.name)
        new: bytes | None = None
        if found is not None:
            data = blob.read(0, blob.size)
            if found[1]:
                new = self._lines.stacks(data.decode(errors="replace")).encode()
            else:
                new = self._lines.flight(data)
        if new is None:
            self._done.left_out.append(blob.name)
        else:
            self._create(self._folder(path.parent) / path.name, iter([new]))


def _lines(blob: Blob) -> Iterator[tuple[bytes, bytes]]:
    """Yield each line of a file, and its end: empty if its process could not finish it."""
    rest = b""
    for start in range(0, blob.size, _CHUNK):
        *lines, rest = (rest + blob.read(start, min(start + _CHUNK, blob.size))).split(b"\n")
        yield from ((line, b"\n") for line in lines)
    if rest:
        yield rest, b""
