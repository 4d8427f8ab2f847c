"""The collection's runs, recorded once: what their ranks left, and the texts of their programs.

    for entry in index().values():
        align(unpack(entry.files(), folder), entry.living)

``tests/corpus/index.jsonl`` has a line for each run; ``tests/corpus/<script>.tar.xz`` holds the log
folders of a script and of its twin and, below ``files/``, the files of the checkout that the
program is made of. Paths of the checkout stand as ``neutral.REPOSITORY``. A run is judged by the
texts that its log holds: no file lies where its paths lead, on whatever machine it is unpacked.
``tools/record_corpus`` writes all of it.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import lzma
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from collectrace.align import alignment
from collectrace.align.reading import run_reader
from collectrace.findings import Alignment
from collectrace.log_folder import SOURCES, is_source
from collectrace.records import SourceFile, encode
from tests.zoo import neutral
from tests.zoo.case import Case, collection

ROOT: Final = Path(__file__).parents[2]
HERE: Final = ROOT / "tests" / "corpus"
INDEX: Final = HERE / "index.jsonl"
LARGEST: Final = 8_000_000
"""Bytes that all recordings together may take."""

COMMAND: Final = "tools/record_corpus"

_MEMORY: Final = Path("/dev/shm")
"""Thousands of folders that are read once need no disk."""

LOGS: Final = "logs/"
_FILES: Final = "files/"
_TWIN: Final = ".twin"
_OF_THE_RUN: Final = (
    "ranks", "limit", "live", "kill_after", "interrupt_after", "lost_log", "untraced", "env",
    "synthetic",
)  # fmt: skip
"""Fields of a header that say how a script is run; the others say what must be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded run; a line of the index."""

    name: str
    """Such as ``matching/order_swapped`` or, of the twin, ``matching/order_swapped.twin``."""
    program: str
    """Hash of the script without what its header expects, and of what it imports from tests."""
    torch: str
    format: int
    """Of the rank files, ``records.FORMAT``."""
    exits: tuple[int | None, ...] = ()
    """Exit status per rank, negative for a signal; None: it still ran."""
    seconds: float = 0.0
    """What the run took."""
    living: tuple[int, ...] = ()
    """Ranks whose process existed as the run was recorded."""
    features: tuple[str, ...] = ()
    """What the run has an example of, such as ``record join`` or ``op all_to_all``."""

    @property
    def twin(self) -> bool:
        """Whether it is the correct twin of its script."""
        return self.name.endswith(_TWIN)

    @property
    def path(self) -> Path:
        """The archive, which a script shares with its twin."""
        return HERE / f"{self.name.removesuffix(_TWIN)}.tar.xz"

    @property
    def logs(self) -> str:
        """Where its logs are in the archive."""
        return f"twin/{LOGS}" if self.twin else LOGS

    def files(self) -> dict[str, bytes]:
        """What the archive holds of this run: see ``contents``."""
        return of_run(packed_files(self.path), self.logs)

    def line(self) -> str:
        """Its line of the index."""
        return json.dumps(asdict(self)) + "\n"


def index() -> dict[str, Entry]:
    """Every recorded run, by name."""
    lines = INDEX.read_text().splitlines() if INDEX.exists() else []
    return {entry.name: entry for entry in map(_entry, lines)}


def _entry(line: str) -> Entry:
    fields = json.loads(line)
    lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    return Entry(**fields | lists)


def write_index(entries: Mapping[str, Entry]) -> None:
    """Write the index, in order of name."""
    INDEX.write_text("".join(entries[name].line() for name in sorted(entries)))


# -- programs --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A run that should be recorded: a case, or its twin."""

    case: Case
    twin: bool

    @cached_property
    def name(self) -> str:
        """Of its entry."""
        return self.case.name + (_TWIN if self.twin else "")

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Its script and what that imports of the tests, by path from the root."""
        found: dict[str, bytes] = {}
        todo = [self.case.path]
        while todo:
            path = todo.pop()
            name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
            if name not in found:
                found[name] = path.read_bytes()
                todo += _imported(found[name])
        return dict(sorted(found.items()))

    @cached_property
    def program(self) -> str:
        """See ``Entry.program``."""
        how = {key: self.case.fields.get(key) for key in _OF_THE_RUN}
        seen = hashlib.sha256(json.dumps(how).encode())
        for name, text in self.files.items():
            seen.update(f"\n{name}\n".encode())
            seen.update(_without_docstring(text))
        return seen.hexdigest()[:16]


@cache
def runs() -> list[Run]:
    """Every run of the collection: each case, and each twin."""
    return [
        Run(case, twin)
        for case in collection()
        for twin in (False, True)
        if case.has_twin or not twin
    ]


def _imported(text: bytes) -> Iterator[Path]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            module = ROOT.joinpath(*str(node.module).split("."))
            inner = [module / alias.name for alias in node.names]
            for path in (path.with_suffix(".py") for path in (module, *inner)):
                if path.is_file():
                    yield path


def _without_docstring(text: bytes) -> bytes:
    """A file's text without the words of its docstring, whose lines it keeps."""
    tree = ast.parse(text)
    if ast.get_docstring(tree) is None:
        return text
    first = tree.body[0]
    lines = text.split(b"\n")
    lines[first.lineno - 1 : first.end_lineno] = [b""] * (first.end_lineno or 0)
    return b"\n".join(lines)


# -- archives --------------------------------------------------------------------------------


def pack(path: Path, files: Mapping[str, bytes]) -> None:
    """Write an archive that depends on nothing but names and contents."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def packed_files(path: Path) -> dict[str, bytes]:
    """What an archive holds, by name."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(path.read_bytes()))) as archive:
        for member in archive:
            stream = archive.extractfile(member)
            assert stream is not None
            found[member.name] = stream.read()
    return found


def logs_of(folder: Path) -> dict[str, bytes]:
    """All files below a log folder, by name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def contents(run: Run, logs: Mapping[str, bytes]) -> dict[str, bytes]:
    """What is kept of a run: its program below ``files/``, its neutral logs below ``logs/``."""
    texts = {_FILES + name: text for name, text in run.files.items()}
    return texts | {LOGS + name: text for name, text in logs.items()}


def of_run(packed: Mapping[str, bytes], logs: str) -> dict[str, bytes]:
    """The contents of one run, whose logs lie below ``logs`` in an archive."""
    files = {name: text for name, text in packed.items() if name.startswith(_FILES)}
    return files | {LOGS + n.removeprefix(logs): t for n, t in packed.items() if n.startswith(logs)}


def with_run(
    packed: Mapping[str, bytes], logs: str, files: Mapping[str, bytes]
) -> dict[str, bytes]:
    """An archive's files with the contents of one run in place of what was there of it."""
    others = {n: t for n, t in packed.items() if not n.startswith((logs, _FILES))}
    return others | {
        logs + n.removeprefix(LOGS) if n.startswith(LOGS) else n: t for n, t in files.items()
    }


def unpack(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write the logs that an archive holds; return their folder."""
    root = str(folder / "files").encode()
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for name, content in _with_texts(files).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        is_text = is_source(PurePosixPath(name))
        path.write_bytes(content if is_text else content.replace(neutral.REPOSITORY, root))
    return logs


@contextmanager
def unpacked(files: Mapping[str, bytes]) -> Iterator[Path]:
    """The logs that an archive holds, for as long as the context lasts."""
    memory = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="corpus-", dir=memory) as name:
        yield unpack(files, Path(name))


def _with_texts(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the logs of an archive, with the program's text as tracers record it.

    Those of the time before texts were recorded get that of the files below ``files/``.
    """
    logs = {name: content for name, content in files.items() if name.startswith(LOGS)}
    if any(is_source(PurePosixPath(name)) for name in logs):
        return logs
    found = {}
    for name, content in logs.items():
        found[name] = content
        head, newline, rest = content.partition(b"\n")
        if not name.endswith(".jsonl") or not newline:
            continue
        for program in (one for one in files if one.startswith(_FILES)):
            path = neutral.REPOSITORY.decode() + "/" + program.removeprefix(_FILES)
            if f'"{path}:'.encode() not in rest:
                continue
            sha256 = hashlib.sha256(files[program]).hexdigest()
            record = SourceFile(path=path, sha256=sha256, size=len(files[program]))
            head += newline + encode(record).rstrip()
            found[str(PurePosixPath(name).parent / SOURCES / f"{sha256}.py")] = files[program]
        found[name] = head + newline + rest
    return found


def align(logs: Path, living: Sequence[int] = ()) -> Alignment:
    """Align unpacked logs, of ranks of which some still lived as they were recorded.

    Raises:
        LogError: there is nothing that can be aligned.

    """
    if not living:
        return alignment.align(logs)
    evidence = run_reader.read(logs)
    evidence = replace(evidence, still_exists=lambda log: log.rank in living)
    return alignment.judged(alignment.compared(evidence))
