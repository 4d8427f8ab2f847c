"""Begin a cause: its module, its row, two scripts of the case collection, and a test.

    tools/new_cause stale-counter                    the next free code of family 1
    tools/new_cause stale-counter --family 4         of the arguments of calls
    tools/new_cause stale-counter --folder loops     where the scripts go

What it writes says TODO where you must write. Then record the scripts (tools/record_corpus), and
look at tools/causes whether the cause wins where it should, and nowhere else.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from collectrace.align.causes import registry  # noqa: E402 - behind the path
from collectrace.align.causes.catalogue import FAMILIES  # noqa: E402

_LAST: Final = 49
"""The last number of a family that a cause may have: what is not explained comes behind."""

_ROWS: Final = re.compile(
    r"^    Cause\(\n        \"CT(?P<family>\d)\d\d\".*?^    \),\n", re.MULTILINE | re.DOTALL
)
"""The rows of the table; each is a call of its own."""

_MODULE: Final = '''\
"""TODO: one sentence that says what happened.

What it means
    TODO: why that is an error, and what follows from it.

Example
    ::

        dist.barrier()              # TODO

Not to be confused with
    TODO: codes that look alike, and how they differ.

How to fix it
    TODO: what to change.
"""

from __future__ import annotations

from collectrace.align.causes import collectives, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words


def find(situation: Situation) -> bool | None:
    """Return TODO: typed facts; None: the cause does not apply."""
    return None


def words(situation: Situation, found: bool) -> Words:
    """Return the words for TODO."""
    return Words(
        phrases.fitting(collectives.headline(situation)),
        ("TODO: at most three sentences.",),
        ("TODO: the best fix first, which names the line to change.",),
    )
'''

_ROW: Final = """\
    Cause(
        "{code}", "{name}",
        "TODO: one sentence.",
        ROWS | kinds("missing_call"), yields_to=(),
        example="{folder}/{script}", counter_example="{folder}/{script}_or_not",
    ),
"""

_SCRIPT: Final = '''\
"""TODO: what happens, in one line.

ranks: 3
expect: {expect}
suspects: {suspects}
status: {status}
cause: rank 1; BUG
fix: every rank
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

rank = init()
for step in range(6):
    if (rank, step) != (1, 3) or TWIN:
        dist.all_reduce(torch.ones(2))  # BUG
'''

_TEST: Final = '''\
"""{code} {name}, beside what the recorded runs show: TODO, or delete this file."""

from __future__ import annotations

from tests.support import causes
from tests.zoo import corpus


def test_it_wins_in_its_example() -> None:
    assert "{code}" in causes.of_run(corpus.index()["{folder}/{script}"]).winning
'''


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="such as stale-counter")
    parser.add_argument("--family", default="1", choices=FAMILIES, help="first digit of its code")
    parser.add_argument("--folder", default="matching", help="of tests/zoo")
    arguments = parser.parse_args()
    try:
        written = create(ROOT, arguments.name, arguments.family, arguments.folder)
    except ValueError as problem:
        print(f"tools/new_cause: {problem}", file=sys.stderr)
        return 2
    for path in written:
        print(path.relative_to(ROOT))
    return 0


def create(root: Path, name: str, family: str, folder: str) -> list[Path]:
    """Write the files of a new cause; return them.

    Raises:
        ValueError: there is such a cause, or the name is none.

    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(f"{name!r} is no name: use small letters and hyphens")
    if any(one.name == name for one in registry.CAUSES):
        raise ValueError(f"there is a cause {name}")
    code, script = next_code(family), name.replace("-", "_")
    module = f"{code.lower()}_{script}"
    fields = {"code": code, "name": name, "folder": folder, "script": script}
    wrong = {"expect": "op_mismatch missing_call", "suspects": "1", "status": "diverged hung"}
    right = {"expect": "nothing", "suspects": "none", "status": "aligned"}
    texts = {
        f"collectrace/align/causes/{module}.py": _MODULE,
        f"tests/zoo/{folder}/{script}.py": _SCRIPT.format(**wrong),
        f"tests/zoo/{folder}/{script}_or_not.py": _healthy(_SCRIPT.format(**right)),
        f"tests/unit/align/causes/test_{module}.py": _TEST.format(**fields),
    }
    written = []
    for path in texts:
        if (root / path).exists():
            raise ValueError(f"{path} exists")
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        written.append(root / path)
    table = root / "collectrace" / "align" / "causes" / "rows.py"
    table.write_text(with_row(table.read_text(), family, _ROW.format(**fields)))
    return [*written, table]


def next_code(family: str) -> str:
    """Return the next code of a family that was never given."""
    numbers = [int(one.code[3:]) for one in registry.CAUSES if one.code[2] == family]
    return f"CT{family}{max((n for n in numbers if n <= _LAST), default=0) + 1:02}"


def with_row(text: str, family: str, row: str) -> str:
    """Return the text of the table with a row behind the last one of its family."""
    last = [one for one in _ROWS.finditer(text) if one["family"] == family][-1]
    return text[: last.end()] + row + text[last.end() :]


def _healthy(text: str) -> str:
    """Return a script that makes the call on every rank."""
    lines = text.replace(
        "from tests.zoo.common import TWIN, init", "from tests.zoo.common import init"
    )
    lines = lines.replace("    if (rank, step) != (1, 3) or TWIN:\n        dist", "    dist")
    return re.sub(r"^(cause|fix): .*\n", "", lines.replace("  # BUG", ""), flags=re.MULTILINE)


if __name__ == "__main__":
    raise SystemExit(main())
