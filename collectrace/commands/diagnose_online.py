"""The process that a rank starts to diagnose its running job through the store.

    HOST PORT ANNOUNCED TURN FOLDER TOLD

It reads the ranks' files through the job's store and writes the report into the folder, in every
format. It prints the head of the report on standard error, except errors that TOLD lists, and sends
every rank one line for each error. It prints nothing else, whatever happens.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collectrace import exchange, internal
from collectrace.commands import beside
from collectrace.exchange import Announced, Keys, Turn, Verdict
from collectrace.findings import is_proven
from collectrace.job_store import JobStore, StoreError
from collectrace.printable import clean
from collectrace.report import terminal

if TYPE_CHECKING:
    from collectrace.findings import Alignment, Finding

_ATTEMPTS: Final = 3

_LONGEST_HEADLINE: Final = 600

_MOST_ERRORS: Final = 10
"""Errors that are sent to all ranks; the report has the others, too."""


def main(argv: Sequence[str]) -> None:
    """Diagnose, send the verdict, and close the turn."""
    host, port, run, number, folder, told = argv
    screen = beside.be_modest()
    announced = exchange.decode(Announced, run.encode())
    keys, turn = Keys(announced.run), int(number)
    alignment = None
    url = f"{exchange.SCHEME}{_bracketed(host)}:{port}/{keys.run}?turn={turn}"
    for _ in range(_ATTEMPTS):  # files go while they are read, where they rotate
        with internal.survived():
            alignment = _align(url, announced)
            break
    if alignment is not None:
        with internal.survived():
            _tell(alignment, Path(folder), turn, set(json.loads(told)), screen)
    with contextlib.suppress(StoreError):
        store = JobStore(host, int(port))
        last = exchange.turn_of(store.read(keys.turn))
        if last is not None and last.number == turn and last.is_open:
            if alignment is not None:
                with internal.survived():
                    store.set(keys.verdict(turn), exchange.encode(_verdict(alignment, last)))
            exchange.close_turn(store, keys, last)
            exchange.clean_up(store, keys, turn, announced.world_size)
            store.delete(keys.verdict(turn - 1))
        store.close()


def _tell(alignment: Alignment, folder: Path, turn: int, known: Set[str], screen: int) -> None:
    """Write the reports of an error, and print the head of one if it was not known before."""
    errors = _errors(alignment)
    if not errors:
        return
    # Write the files first: readers of the line may open them at once.
    written = _write(alignment, folder, turn)
    news = [
        n for n in errors if exchange.headline_hash(_headline(alignment.findings[n])) not in known
    ]
    if news:
        beside.show(_head(alignment, news, written), screen)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _align(url: str, announced: Announced) -> Alignment:
    from collectrace.align import align
    from collectrace.align.reading import through_store

    with through_store.opened(url, announced) as folder:
        return align(folder)


def _verdict(alignment: Alignment, turn: Turn) -> Verdict:
    found = [alignment.findings[n] for n in _errors(alignment)]
    first = found[0] if found else None
    return Verdict(
        turn=turn.number,
        by=turn.by,
        status=alignment.status,
        headline="" if first is None else _headline(first),
        kind="" if first is None else first.kind,
        is_proven=first is not None and is_proven(first),
        also=tuple(map(_headline, found[1:_MOST_ERRORS])),
    )


def _errors(alignment: Alignment) -> list[int]:
    """Return the root causes, proven ones first; or the ranks that do not answer while others wait.

    Empty: there is nothing to report while the job runs.
    """
    findings = alignment.findings
    return sorted(terminal.urgent(alignment), key=lambda n: not is_proven(findings[n]))


def _headline(finding: Finding) -> str:
    """Return a headline on one line that is safe for a terminal."""
    return clean(finding.headline[:_LONGEST_HEADLINE])


def _write(alignment: Alignment, folder: Path, turn: int) -> dict[str, Path]:
    """Write every full report, each whole or not at all; return them by file extension."""
    from collectrace.commands import output
    from collectrace.report import REPORTS

    written = {}
    for report in REPORTS:
        if report.is_short or report.lacks is not None:
            continue
        ending = report.option or "txt"
        file = folder / f"verdict.{turn:04d}.{ending}"
        with internal.survived():  # such as a full disk: the verdict is sent all the same
            output.write_to(str(file), sys.stdout, partial(report.write, alignment))
            written[ending] = file
    return written


_WHOLE: Final = {"txt": "the whole report", "html": "as a page, with pictures"}
"""The files for people, by file extension, and the words that point to them."""


def _head(alignment: Alignment, findings: Sequence[int], written: Mapping[str, Path]) -> str:
    told = beside.head(alignment, findings)
    line = "-" * beside.WIDTH
    files = [
        f"{what}: {clean(str(written[end]))}" for end, what in _WHOLE.items() if end in written
    ]
    parts = ["collectrace, while the job runs:", told, "\n".join(files)]
    return f"{line}\n" + "\n\n".join(filter(None, parts)) + f"\n{line}\n"
