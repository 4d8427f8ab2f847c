"""The source texts of the program as the ranks recorded them, by path and rank.

Logs are not trusted. A text counts only if its hash is the recorded one, and if the functions of
recorded frames begin at the recorded lines.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final, Protocol

from collectrace import source_text, words
from collectrace.align.reading import chains, parsing
from collectrace.config import SOURCE
from collectrace.errors import LogError
from collectrace.log_folder import SOURCE_FILE, Blob, is_source
from collectrace.records import Header, Imported, Source, Stack

_MOST_KEPT: Final = 32 << 20
"""Characters of texts kept in memory."""

_MOST_NAMED: Final = 3
"""Files that a note names."""


_LONGEST: Final = 400
"""Characters of a line that was recorded singly; tracers write 200."""


class Recorded(Protocol):
    """What one rank has recorded of the program, as far as it has been read."""

    sources: dict[str, Source]
    """By site, single lines: from an older tracer, or one that records no texts."""
    source_files: dict[str, str]
    """By path, the hash of the text."""
    stacks: dict[int, Stack]
    imported: Imported | None
    header: Header | None


@dataclass
class _Frames:
    """What the frames of all ranks show of their source files."""

    hashes: dict[str, set[str]] = field(default_factory=dict)
    """By path, the hashes that ranks have recorded."""
    functions: dict[tuple[str, str], set[tuple[str, int]]] = field(default_factory=dict)
    """By path and hash: names of functions, and their first lines, decorators included."""
    traced: set[str] = field(default_factory=set)
    """Paths of frames with the first lines of their functions: their tracer records texts, too."""
    foreign: set[str] = field(default_factory=set)
    """Paths of frames from another tool, which records no hashes."""

    def add(self, rank: Recorded) -> None:
        """Add what one rank has recorded."""
        for path, sha256 in rank.source_files.items():
            self.hashes.setdefault(path, set()).add(sha256)
        for stack in rank.stacks.values():
            if rank.imported is not None:
                self.foreign.update(map(chains.file, stack.frames))
            for frame, first_line in zip(stack.frames, stack.first_lines or (), strict=False):
                path, function = chains.scope(frame)
                self.traced.add(path)
                name = function.rpartition(".")[2]
                key = path, rank.source_files.get(path, "")
                self.functions.setdefault(key, set()).add((name, first_line))


class SourceFiles:
    """The source texts of a run, each read on demand.

    ``ranks``: what each rank has recorded. ``files``: those of the log folder. ``asked``: returns
    the texts that a rank itself can provide, by hash.
    """

    def __init__(
        self,
        ranks: Mapping[int, Recorded] | None = None,
        files: Iterable[Blob] = (),
        asked: Callable[[int], Mapping[str, Blob]] = lambda _: {},
    ) -> None:
        self._ranks = ranks or {}
        self._asked = asked
        self._blobs: dict[str, list[Blob]] = {}
        """By hash: several hosts may each have written one."""
        for blob in files:
            path = PurePosixPath(blob.name)
            if is_source(path):
                self._blobs.setdefault(path.stem, []).append(blob)
        self._texts: dict[str, str | None] = {}
        """By hash."""
        self._kept = 0
        """Characters of the cached texts."""
        self._wrong: list[str] = []
        self._fits: dict[tuple[str, str], bool] = {}
        """By path and hash, whether functions begin in the text where they began for the ranks."""
        self._changed: dict[str, None] = {}
        """Paths of files that were edited before their text was recorded."""
        self._borrowed: dict[str, None] = {}
        """Paths of requested files without a hash from some ranks."""
        self._absent: dict[str, None] = {}
        """Paths of requested files without any text."""
        self._unproven: dict[str, str | None] = {}
        """By path, texts of this machine without a recorded hash."""
        self._libraries: dict[int, dict[tuple[str, ...], set[tuple[str, ...]]]] = {}
        """By rank; see :meth:`libraries`."""

    @cached_property
    def _frames(self) -> _Frames:
        found = _Frames()
        for rank in self._ranks.values():
            found.add(rank)
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on requested texts that could not be used, or are not the ranks' own."""
        notes = list(self._wrong)
        if self._changed:
            notes.append(
                f"source changed: {_named(self._changed)} was edited before its text was recorded, "
                "and its lines are not shown"
            )
        if self._borrowed:
            notes.append(
                f"some ranks recorded no hash of {_named(self._borrowed)}: the text that all "
                "others ran is shown for them"
            )
        if self._absent:
            headers = [rank.header for rank in self._ranks.values() if rank.header is not None]
            is_omitted = any(SOURCE in (header.omitted or ()) for header in headers)
            why = "left out of the record (omit, redact)" if is_omitted else "not recorded"
            notes.append(
                f"the text of {_named(self._absent)} was {why}: its lines are not shown, "
                "and causes that lie in its conditions and loops are not found"
            )
        if any(self._unproven.values()):
            notes.append(
                "the dumps hold no text of the program: its lines are those of the files that lie "
                "under the same paths on this machine, which may be others"
            )
        return tuple(notes)

    def text(self, rank: int, path: str) -> str | None:
        """Return the text that a rank ran under a path; None if that is not known.

        A rank without a recorded hash borrows the text that all others have.
        """
        ranks = self._ranks
        sha256 = ranks[rank].source_files.get(path) if rank in ranks else None
        if sha256 is not None:
            return self._unchanged(sha256, path)
        told = self._frames.hashes.get(path, set())
        if told:
            found = self._unchanged(next(iter(told)), path) if len(told) == 1 else None
            if found is not None:
                self._borrowed[path] = None
            return found
        return self._of_this_machine(path)

    def shared(self, path: str) -> str | None:
        """Return the text that all ranks ran under a path; None if it is unknown or differs.

        Ranks without a recorded hash do not count.
        """
        told = self._frames.hashes.get(path, set())
        if len(told) > 1:
            return None
        found = None
        for sha256 in told:
            found = self._unchanged(sha256, path)
        if not told:
            found = self._of_this_machine(path)
        if found is not None and (path, "") in self._frames.functions:
            self._borrowed[path] = None
        if found is None and path in self._frames.traced and path not in self._changed:
            self._absent[path] = None
        return found

    def parsed(self, path: str) -> ast.Module | None:
        """Return the syntax tree of a file that all ranks ran; None: it cannot be parsed.

        The tree is empty if the text is unknown, or differs.
        """
        return parsing.parsed(self.shared(path) or "")

    def line(self, site: str | None) -> str:
        """Return a line, given as ``path:line``, without indentation; empty if it is not known.

        A line that was recorded singly counts only if the text of the file is unknown.
        """
        path, number = chains.split(site)
        text = self.shared(path) or ""
        lines = parsing.lines(text)
        if text and 0 < number <= len(lines):
            return lines[number - 1].strip()
        recorded = (rank.sources.get(site or "") for rank in self._ranks.values())
        known = next((one for one in recorded if one is not None), None)
        last = known.lines[-1] if known is not None and known.lines else ""
        return last[:_LONGEST].partition(" ")[2].strip()

    def libraries(self, rank: int) -> Mapping[tuple[str, ...], set[tuple[str, ...]]]:
        """Return by the user's frames of a rank's stacks the libraries' frames above them."""
        found = self._libraries.get(rank)
        if found is None:
            found = self._libraries[rank] = {}
            for stack in self._ranks[rank].stacks.values() if rank in self._ranks else ():
                found.setdefault(tuple(stack.frames), set()).add(tuple(stack.libraries or ()))
        return found

    def is_held(self, rank: int, path: str) -> bool:
        """Return whether the log holds the text that a rank ran under a path."""
        return rank in self._ranks and self._ranks[rank].source_files.get(path) in self._blobs

    def skewed(self) -> dict[str, dict[str, list[int]]]:
        """Return by path the ranks of each text, for the paths with several texts."""
        found: dict[str, dict[str, list[int]]] = {}
        for rank, known in sorted(self._ranks.items()):
            for path, sha256 in known.source_files.items():
                found.setdefault(path, {}).setdefault(sha256, []).append(rank)
        return {path: texts for path, texts in sorted(found.items()) if len(texts) > 1}

    def _unchanged(self, sha256: str, path: str) -> str | None:
        """Return a text if the functions of recorded frames begin in it at the recorded lines."""
        found = self._text(sha256, path)
        if found is None:
            return None
        key = path, sha256
        if key not in self._fits:
            functions = self._frames.functions.get(key, ())
            self._fits[key] = all(parsing.defines(found, name, line) for name, line in functions)
        if not self._fits[key]:
            self._changed[path] = None
            return None
        return found

    def _of_this_machine(self, path: str) -> str | None:
        """Return the text under a path here, if only frames of another tool name the path."""
        if path not in self._frames.foreign or path in self._frames.traced:
            return None
        if path not in self._unproven:
            data = source_text.read(path) if path.endswith(".py") else None
            self._unproven[path] = None if data is None else source_text.decode(data)
        return self._unproven[path]

    def _text(self, sha256: str, path: str) -> str | None:
        if sha256 in self._texts:
            return self._texts[sha256]
        texts = map(source_text.decode, self._found(sha256, path))
        found = next((text for text in texts if text is not None), None)
        size = 0 if found is None else len(found)
        if self._kept + size > _MOST_KEPT:
            self._texts, self._kept = {}, 0
        self._texts[sha256] = found
        self._kept += size
        return found

    def _found(self, sha256: str, path: str) -> Iterator[bytes]:
        """Yield bytes with this hash: from the log, from ranks, from the path on this machine."""
        for blob in self._blobs.get(sha256, ()):
            yield from self._checked(blob, sha256)
        for rank, known in self._ranks.items():
            if sha256 not in known.source_files.values():
                continue
            if (asked := self._asked(rank).get(sha256)) is not None:
                yield from self._checked(asked, sha256)
        data = source_text.read(path) if path.endswith(".py") else None
        if data is not None and hashlib.sha256(data).hexdigest() == sha256:
            yield data

    def _checked(self, blob: Blob, sha256: str) -> Iterator[bytes]:
        if blob.size > source_text.MOST_BYTES:
            self._wrong.append(f"{blob.name} is too large for a source file, and was not read")
            return
        try:
            data = blob.read(0, blob.size)
        except LogError as problem:
            self._wrong.append(str(problem))
            return
        if hashlib.sha256(data).hexdigest() != sha256:
            self._wrong.append(f"{blob.name} is not the text that was recorded, and was not used")
            return
        yield data


def is_hash(text: str) -> bool:
    """Return whether a text is a hash as ranks record it."""
    return SOURCE_FILE.fullmatch(f"{text}.py") is not None


def _named(paths: Iterable[str]) -> str:
    names = dict.fromkeys(PurePosixPath(path).name for path in paths)
    return words.listed(list(names), _MOST_NAMED)
