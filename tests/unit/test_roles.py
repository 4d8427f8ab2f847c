"""The table of roles: that it is complete, and what is read from it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import collectrace
from collectrace import roles
from collectrace.roles import ROLES, UNKNOWN, USER
from collectrace.tracer.life.blind_spots import BLIND_SPOTS

TRACER = Path(collectrace.__file__).parent / "tracer"
FRAMEWORKS = {name.partition(".")[0] for name in ROLES} - {USER, UNKNOWN}
DOTTED = re.compile(rf"({'|'.join(FRAMEWORKS)})(\.[a-z_]+)+")
PUSHES = {"role", "role_of", "inside_role"}
"""What takes a role as an argument."""
MODULES = {name for spot in BLIND_SPOTS for name in spot.modules}
"""Names of modules, which may look like a role."""


def texts(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def looks_like_one(text: str) -> bool:
    return DOTTED.fullmatch(text) is not None and text not in MODULES


def named_in(file: Path) -> Iterator[str]:
    """The roles a file names: where it hands one over, and whatever looks like one."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called in PUSHES:
                yield from (text for argument in node.args for text in texts(argument))
    yield from (text for text in texts(tree) if looks_like_one(text))


def test_every_role_of_the_tracer_has_a_row() -> None:
    named = {role for file in TRACER.rglob("*.py") for role in named_in(file)}
    assert named - ROLES.keys() == set()
    named |= {other for name in named for _, other in ROLES[name].if_op}
    never = {name for name, role in ROLES.items() if not role.is_family} - named - {USER, UNKNOWN}
    assert never == set(), "rows of roles that the tracer never gives"


def test_every_role_has_words() -> None:
    for role in ROLES.values():
        assert {"", role.name}.isdisjoint((role.words, role.short, role.issuer)), role.name
        # A table's cell is narrow, and a clause goes on in a sentence.
        assert len(role.short) <= 26, role.name
        assert not role.words.endswith("."), role.name


def test_parts_are_told_by_the_same_name_as_their_family() -> None:
    for role in ROLES.values():
        family = ROLES.get(role.name.rpartition(".")[0])
        if family is not None:
            assert (family.is_family, family.issuer) == (True, role.issuer), role.name


def test_columns_do_not_contradict_each_other() -> None:
    for role in ROLES.values():
        assert 1 <= role.precision <= 4, role.name
        assert role.in_backward or not role.is_bucket, role.name
        assert role.name.startswith("join") or not role.shadows, role.name
        assert roles.is_shadow(role.name) == role.shadows, role.name


def test_each_shadow_pairs_with_what_it_shadows() -> None:
    classes = defaultdict(set)
    for role in ROLES.values():
        if not role.is_family:
            classes[role.pairs].add((role.shadows, role.in_backward, role.is_bucket))
    # One that trains and one that shadows, alike in all else; or one for both.
    for found in classes.values():
        assert {shadows for shadows, *_ in found} in ({False}, {False, True})
        assert len({(in_backward, is_bucket) for _, in_backward, is_bucket in found}) == 1


def test_models_of_one_group_are_told_apart() -> None:
    assert roles.pairing_class("join.bucket") == "ddp.bucket"
    assert roles.pairing_class("ddp.forward.sync_check", 0) == "ddp.sync_check"
    assert roles.pairing_class("join.sync_check", 2) == "ddp.sync_check#2"
    assert roles.pairing_class(USER) == USER


@pytest.mark.parametrize(
    ("role", "issuer", "shadows"),
    [
        ("ddp.forward.anew", "DDP forward()", False),
        ("ddp.backward.anew", "DDP backward()", False),
        ("join.anew", "join()", True),
        ("join.bucket#other", "join()", True),
        ("ddp.anew", "ddp.anew", False),
        ("zero.anew", "zero.anew", False),
        ("fsdp.forward.gather", "fsdp.forward.gather", False),
        ("user.anew", "user.anew", False),
        ("anew", "anew", False),
        ("", "", False),
    ],
)
def test_a_role_without_a_row_pairs_with_itself(role: str, issuer: str, shadows: bool) -> None:
    row = roles.of(role)
    assert row.pairs == row.words == row.short == role
    assert (row.issuer, row.shadows) == (issuer, shadows)
    assert (row.in_backward, row.is_bucket, row.is_family) == (False, False, False)
    assert roles.pairing_class(role) == roles.words(role) == roles.short(role) == role
