"""What a log holds of its user: the table, the schema and the chapter say the same."""

from __future__ import annotations

import re
import typing
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

import collectrace
from collectrace.config import OMITTABLE
from collectrace.privacy import FIELDS, OF_FILES, PARTS, Holds, without
from collectrace.records import KINDS, Header, KernelWait, Raised, Stack, Stall

CHAPTER: Final = (Path(collectrace.__file__).parent / "docs" / "privacy.md").read_text()


def can_hold_text(hint: Any) -> bool:
    """Whether a field's type allows a text in it, at whatever depth."""
    if hint in (str, Any):
        return True
    return any(map(can_hold_text, typing.get_args(hint)))


def texts() -> dict[str, type[Any]]:
    """Every field of the format that can hold a text, with its class."""
    return {
        f"{name}.{f.name}": cls
        for cls, name in PARTS.items()
        for f in fields(cls)
        if can_hold_text(typing.get_type_hints(cls)[f.name])
    }


def test_every_field_that_can_hold_a_text_has_a_row() -> None:
    assert set(KINDS.values()) <= PARTS.keys()
    assert texts().keys() == FIELDS.keys()


def row(holds: Holds) -> str:
    names = sorted(name for name, one in FIELDS.items() if one is holds)
    return f"| {holds.value} | {', '.join(f'`{name}`' for name in names)} |"


@pytest.mark.parametrize("holds", Holds)
def test_the_chapter_lists_every_field(holds: Holds) -> None:
    assert row(holds) in CHAPTER.splitlines()


def test_the_chapter_lists_every_file() -> None:
    for name, what in OF_FILES.items():
        files = ", ".join(f"`{one}`" for one in name.split(", "))
        assert f"| {files} | {what} |" in CHAPTER.splitlines()


PATH: Final = "/home/zq/job/train.py"


def test_without_paths_the_last_part_and_the_line_stay() -> None:
    stack = Stack(
        stack=1,
        frames=[f"{PATH}:12 Trainer.step", "/usr/lib/python3.11/threading.py:5 run"],
        libraries=["0 /opt/zq/site-packages/torch/nn/modules/module.py:7 Module.__call__"],
    )
    changed = without(stack, ("paths",))
    assert changed.frames == ["train.py:12 Trainer.step", "/lib/python3.11/threading.py:5 run"]
    assert changed.libraries == ["0 /site-packages/torch/nn/modules/module.py:7 Module.__call__"]
    assert stack.frames[0].startswith(PATH)


def test_paths_in_other_texts_lose_their_folders_too() -> None:
    raised = Raised(what="backward", error="OSError", message=f"no such file: '{PATH}' (gloo/x)")
    assert without(raised, ("paths",)).message == "no such file: 'train.py' (gloo/x)"
    header = Header(format=1, host="h", pid=1, wall=1, cwd="/home/zq", argv=[PATH, f"--in={PATH}"])
    changed = without(header, ("paths",))
    assert (changed.cwd, changed.argv) == ("", ["train.py", "--in=train.py"])
    assert without(header, ("arguments",)).argv == []
    waits = [KernelWait(file="/home/zq/lock"), KernelWait(file="pipe:[5]")]
    stall = without(Stall(stacks={"a": [f"{PATH}:3 f"]}, waits=waits), ("paths",))
    assert stall.stacks == {"a": ["train.py:3 f"]}
    assert [wait.file for wait in stall.waits or ()] == ["lock", "pipe:[5]"]


def test_what_is_not_changed_is_no_copy() -> None:
    record = Raised(what="backward", error="OSError", message="nothing")
    assert without(record, ("arguments",)) is record


def test_the_words_of_the_option_are_in_the_chapter() -> None:
    for word in OMITTABLE:
        assert re.search(rf"^\| `{word}` \|", CHAPTER, re.MULTILINE)
