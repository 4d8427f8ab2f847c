"""Try every cause on every recorded run of the case collection, and print which apply and win.

    tools/causes                       the matrix, in half a minute
    tools/causes --only stopped/       runs whose name matches a pattern
    tools/causes --runs CT102          the runs in which a cause applies, and what wins there
    tools/causes --docs                write causes.md, evidence.md and the kinds in findings.md

applies     findings in which it applies
wins        findings that it explains
yields      findings that another cause explains, though it applies: to which, how often

Causes that never win stand at the end, and pairs that both apply and do not say which yields.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "collectrace" / "docs"
sys.path.insert(0, str(ROOT))

from collectrace.align.causes import catalogue, registry  # noqa: E402 - behind the path
from collectrace.align.judging import catalogue as facts  # noqa: E402
from collectrace.findings import KINDS  # noqa: E402
from tests.support import causes  # noqa: E402
from tests.support.causes import Causes  # noqa: E402
from tests.zoo import corpus  # noqa: E402

_PROCESSES: Final = 2
_MOST: Final = 4
"""Winners that are listed for a cause."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a regular expression")
    parser.add_argument("--runs", metavar="CODE", help="list the runs in which it applies")
    parser.add_argument("--docs", action="store_true", help="write the chapters, and nothing else")
    arguments = parser.parse_args()
    if arguments.docs:
        (DOCS / "causes.md").write_text(catalogue.chapter())
        (DOCS / "evidence.md").write_text(facts.chapter())
        (DOCS / "findings.md").write_text(with_kinds((DOCS / "findings.md").read_text()))
        return 0
    found = tried(arguments.only)
    print(_runs(found, arguments.runs.upper()) if arguments.runs else matrix(found))
    return 0


def with_kinds(chapter: str) -> str:
    """Return the chapter on findings with the table of all kinds between its two marks."""
    before, _, rest = chapter.partition("<!-- kinds -->\n")
    _, mark, after = rest.partition("<!-- /kinds -->\n")
    rows = [f"| `{kind}` | {row.meaning} | {row.status or ''} |" for kind, row in KINDS.items()]
    table = "\n".join(["| kind | meaning | status |", "|---|---|---|", *rows])
    return f"{before}<!-- kinds -->\n\n{table}\n\n{mark}{after}"


def tried(pattern: str = "") -> dict[str, Causes]:
    """Return the causes of recorded runs by their names, tried in two processes."""
    runs = {run.name for run in corpus.runs()}
    entries = [
        entry for name, entry in corpus.index().items() if re.search(pattern, name) and name in runs
    ]
    with ProcessPoolExecutor(_PROCESSES) as pool:
        return {one.run: one for one in pool.map(causes.of_run, entries, chunksize=8)}


def matrix(found: Mapping[str, Causes]) -> str:
    """Return the table of all causes."""
    applies, wins = Counter[str](), Counter[str]()
    yields: dict[str, Counter[str]] = {}
    for causes_of in found.values():
        for one in causes_of.applied:
            for code in one.codes:
                applies[code] += 1
                if code != one.winner and one.winner is not None:
                    yields.setdefault(code, Counter())[one.winner] += 1
            wins.update([one.winner] if one.winner else [])
        applies.update(causes_of.observed)
        wins.update(causes_of.observed)
    lines = [f"{'code':6} {'name':28} {'applies':>7} {'wins':>5}  yields"]
    rows = sorted(causes.in_use(), key=lambda one: one.code)
    for row in rows:
        to = yields.get(row.code, Counter())
        listed = ", ".join(f"{code} {n}" for code, n in to.most_common(_MOST))
        lines.append(
            f"{row.code:6} {row.name:28} {applies[row.code]:7} {wins[row.code]:5}  "
            f"{to.total() or ''} {f'({listed})' if listed else ''}".rstrip()
        )
    never = [row.code for row in rows if not wins[row.code]]
    lines += ["", f"never win: {', '.join(never) or 'none'}"]
    pairs = {pair: run for run, those in found.items() for pair in causes.undecided(those)}
    lines.append(f"both apply, and none yields: {len(pairs)}")
    lines += [f"  {one} {other}  {run}" for (one, other), run in pairs.items()]
    return "\n".join(lines)


def _runs(found: Mapping[str, Causes], code: str) -> str:
    name = registry.BY_CODE[code].name if code in registry.BY_CODE else "?"
    lines = [f"{code} {name} applies in:"]
    for causes_of in found.values():
        lines += [
            f"  {causes_of.run} finding {n} ({one.kind}): {', '.join(one.codes)}"
            for n, one in enumerate(causes_of.applied)
            if code in one.codes
        ]
        lines += [f"  {causes_of.run}: observed"] if code in causes_of.observed else []
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
