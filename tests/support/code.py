"""The files of a run of which nothing is there but their texts, as ranks record them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from collectrace.align.reading.code_files import CodeFiles
from collectrace.align.reading.rank_records import RankRecords
from collectrace.align.reading.source import LocalBlob
from collectrace.align.reading.source_files import SourceFiles
from collectrace.align.reading.vocabulary import Vocabulary


def code_of(*files: Path | str) -> CodeFiles:
    """Return what is known of these files, of a run whose only rank has recorded their texts."""
    records, blobs = RankRecords(0, Vocabulary()), []
    for path in map(Path, files):
        data = path.read_bytes()
        sha256 = records.source_files[str(path)] = hashlib.sha256(data).hexdigest()
        blobs.append(LocalBlob(f"sources/{sha256}.py", len(data), path))
    return CodeFiles(SourceFiles({0: records}, blobs))
