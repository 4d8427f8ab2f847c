"""Files of the user's code that are unusual: nothing is known of them, or all is in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.reading import code_lines, values
from tests.support.code import code_of

DEEP = ["for x in y:", "    if x:", "        gather(x)", *["    elif x:", "        f(x)"] * 2500]
LONG = [f"x = {'1 + ' * 900}1", "for x in y:", "    gather(x)"]


def program(folder: Path, lines: list[str]) -> str:
    """The path of a file with such lines."""
    file = folder / "train.py"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


@pytest.mark.parametrize("lines", [DEEP, LONG], ids=["deep", "long"])
def test_a_program_that_is_too_deep_is_read_line_by_line_at_least(
    lines: list[str], tmp_path: Path
) -> None:
    file = program(tmp_path, lines)
    code, site = code_of(file), f"{file}:3"
    known = code_lines.of_site(code, site)
    assert known is not None
    assert known.text == "gather(x)"
    assert values.read_by(code, site) == {}
    assert list(code.at(site).ways) == []


def test_lines_are_counted_as_the_parser_counts_them(tmp_path: Path) -> None:
    file = program(tmp_path, ["import x", "\f", "if x:  # \u2028", "    gather(x)"])
    assert code_of(file).at(f"{file}:4").statements == ["3 if x:  #", "4     gather(x)"]


@pytest.mark.parametrize("name", ["gone.py", "data.txt", ""])
def test_without_a_file_nothing_is_known(name: str) -> None:
    code = code_of()
    assert list(code.lines(name)) == [""]
    assert code.spans(name).loops == ()
    assert code_lines.of_site(code, f"{name}:1") is None
