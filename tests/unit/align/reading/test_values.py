"""Conditions that read what a collective gave to its root."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from collectrace.align.reading import values
from tests.support.code import code_of


def read_by(folder: Path, text: str) -> dict[str, str]:
    """The names, by the text of the conditions."""
    train = folder / "train.py"
    train.write_text(textwrap.dedent(text))
    lines = train.read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "# ROOT" in line)
    return {
        lines[n - 1].strip(): name
        for n, name in values.read_by(code_of(train), f"{train}:{number}").items()
    }


def test_a_condition_behind_it(tmp_path: Path) -> None:
    text = """
        dist.reduce(loss, dst=0)  # ROOT
        loss /= world
        loss = loss * 2
        if loss.item() < 1:
            stop()
    """
    assert read_by(tmp_path, text) == {"if loss.item() < 1:": "loss"}


def test_the_loop_around_it_comes_next(tmp_path: Path) -> None:
    text = """
        loss = first()
        while float(loss) > 1:
            loss = step()
            dist.reduce(loss, 0)  # ROOT
    """
    assert read_by(tmp_path, text) == {"while float(loss) > 1:": "loss"}


@pytest.mark.parametrize(
    "text",
    [
        # set anew before it is read
        "dist.reduce(loss, 0)  # ROOT\nloss = other()\nif loss > 1:\n    stop()",
        "while go:\n    loss = step()\n    if loss > 1: continue\n    dist.reduce(loss, 0)  # ROOT",
        "while loss > 1:\n    dist.reduce(loss, 0)  # ROOT\n    loss = step()",
        "dist.reduce(loss, 0)  # ROOT\nfor loss in losses:\n    if loss > 1:\n        stop()",
        "dist.reduce(loss, 0)  # ROOT\nwith it as loss:\n    if loss > 1:\n        stop()",
        # read before it, and never again
        "if loss > 1:\n    stop()\ndist.reduce(loss, 0)  # ROOT",
        # something else is read
        "dist.reduce(loss, 0)  # ROOT\nif losses > 1:\n    stop()",
        "dist.reduce(self.loss, 0)  # ROOT\nif loss > 1:\n    stop()",
        # what has no name, and what every rank gets
        "dist.reduce(loss * 2, 0)  # ROOT\nif loss > 1:\n    stop()",
        "dist.all_reduce(loss)  # ROOT\nif loss > 1:\n    stop()",
        "dist.gather(loss, losses, 0)  # ROOT\nif loss > 1:\n    stop()",
        # in another function
        "def share():\n    dist.reduce(loss, 0)  # ROOT\nif loss > 1:\n    stop()",
        "dist.reduce(loss, 0)  # ROOT\ndef late():\n    if loss > 1:\n        stop()",
        "dist.reduce(  # ROOT",
    ],
)
def test_nothing_reads_it(text: str, tmp_path: Path) -> None:
    assert read_by(tmp_path, text) == {}


@pytest.mark.parametrize(
    "call",
    [
        "dist.gather(one, losses, 0)",
        "dist.gather(tensor=one, gather_list=losses)",
        "gather_object(one, losses)",
        "dist.reduce(tensor=losses, dst=0)",
    ],
)
def test_each_collective_to_a_root(call: str, tmp_path: Path) -> None:
    text = f"{call}  # ROOT\nif max(losses) > 1:\n    stop()"
    assert read_by(tmp_path, text) == {"if max(losses) > 1:": "losses"}


def test_an_attribute_has_its_whole_name(tmp_path: Path) -> None:
    text = "dist.reduce(self.loss, 0)  # ROOT\nif self.loss > 1:\n    stop()"
    assert read_by(tmp_path, text) == {"if self.loss > 1:": "self.loss"}


def test_a_file_that_is_not_there_tells_nothing(tmp_path: Path) -> None:
    assert values.read_by(code_of(), f"{tmp_path}/gone.py:3") == {}
    assert values.read_by(code_of(), "") == {}


def test_a_damaged_site_reads_nothing(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("dist.reduce(loss, dst=0)\nif loss < 3:\n    stop()\n")
    assert values.read_by(code_of(script), f"{script}:1") == {2: "loss"}
    assert values.read_by(code_of(script), f"{script}:²") == {}
