"""The table of causes: its rows, their modules, and what is printed of them."""

from __future__ import annotations

import graphlib
import inspect
import io
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

import collectrace
from collectrace import cli
from collectrace.align.causes import catalogue, cause, registry
from collectrace.align.causes.cause import Cause
from collectrace.errors import CollectraceError
from collectrace.findings import KINDS
from tests.support import causes
from tests.support.commands import run
from tests.zoo.case import HERE
from tools import causes as causes_tool

MODULES: Final = Path(collectrace.__file__).parent / "align" / "causes"
DOCS: Final = Path(collectrace.__file__).parent / "docs"

each = pytest.mark.parametrize("cause", causes.in_use(), ids=lambda one: one.code)


def test_no_causes_yield_to_each_other_in_a_circle() -> None:
    assert sorted(registry.order(), key=lambda one: one.code) == sorted(
        causes.in_use(), key=lambda one: one.code
    )


def test_a_circle_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        Cause("CT998", "one", "One.", cause.ALL, yields_to=("CT999",)),
        Cause("CT999", "two", "Two.", cause.ALL, yields_to=("CT998",)),
    ]
    monkeypatch.setattr(registry, "CAUSES", tuple(rows))
    monkeypatch.setattr(registry, "BY_CODE", {one.code: one for one in rows})
    with pytest.raises(graphlib.CycleError):
        registry.order.__wrapped__()


def test_codes_and_names_are_given_once() -> None:
    for key in ("code", "name"):
        counts = Counter(getattr(one, key) for one in registry.CAUSES)
        assert [name for name, n in counts.items() if n > 1] == []


@each
def test_a_row_is_whole(cause: Cause) -> None:
    assert re.fullmatch(r"CT[1-9]\d\d", cause.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cause.name)
    assert cause.summary.endswith(".")
    assert len(cause.summary) <= 100
    assert cause.kinds
    for prefix in cause.yields_to:
        assert any(one.code.startswith(prefix) for one in registry.CAUSES), prefix


@each
def test_its_examples_are_scripts_of_the_zoo(cause: Cause) -> None:
    for name in filter(None, (cause.example, cause.counter_example)):
        assert (HERE / f"{name}.py").exists(), name


@each
def test_its_module_finds_and_words_it(cause: Cause) -> None:
    module = cause.load()
    if cause.is_observed:
        return  # an observation does
    counts = [
        len(inspect.signature(getattr(module, name)).parameters) for name in ("find", "words")
    ]
    assert counts == [1, 2]


@each
def test_its_module_is_its_documentation(cause: Cause) -> None:
    title, sections = catalogue.parts(inspect.getdoc(cause.load()) or "")
    assert title.endswith(".")
    assert len(title.splitlines()) == 1
    assert tuple(sections) == catalogue.SECTIONS
    assert all(sections.values())
    assert "::" in sections["Example"]


def test_every_module_has_a_row() -> None:
    known = {one.module for one in registry.CAUSES}
    assert {path.stem for path in MODULES.glob("ct[0-9]*.py")} <= known


def test_retired_rows_say_why() -> None:
    assert [
        one.code
        for one in registry.CAUSES
        if (one.status == "retired") != bool(re.match(r"CT\d{3} covers it", one.reason))
    ] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_finding_has_a_code(kind: str) -> None:
    unexplained = [
        one for one in registry.CAUSES if one.name == "unexplained" and kind in one.kinds
    ]
    assert any(kind in one.kinds for one in causes.in_use() if one not in unexplained)
    is_judged = kind in cause.ERRORS and kind != "lost_mismatch"
    assert len(unexplained) == is_judged


# -- what is printed of them -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["CT302", "ct302", "absent-rank"])
def test_a_cause_is_explained_by_its_code_or_name(name: str) -> None:
    status, out, err = run("explain", name)
    assert (status, err) == (0, "")
    assert out.startswith("# CT302 absent-rank\n")
    assert all(f"\n## {section}\n" in out for section in catalogue.SECTIONS)
    assert 'raise ValueError("batch 2 has no labels")' in out


@each
def test_every_cause_is_explained(cause: Cause) -> None:
    status, out, err = run("explain", cause.code)
    assert (status, err) == (0, "")
    assert out.startswith(f"# {cause.code} {cause.name}\n")
    assert "tests/" not in out  # which is not installed
    assert "yields to" not in out


def test_several_causes_are_explained_as_a_report_asks() -> None:
    explained = run("explain", "CT302", "CT102")
    assert explained == (0, "\n".join(run("explain", code)[1] for code in ("CT302", "CT102")), "")


def test_without_a_code_those_in_use_are_listed_and_a_retired_one_named() -> None:
    status, out, err = run("explain")
    assert (status, err) == (0, "")
    listed, _, end = out.partition("\n\n")
    assert [line.split()[0] for line in listed.splitlines()] == sorted(
        one.code for one in causes.in_use()
    )
    retired = min(one.code for one in registry.CAUSES if one.status == "retired")
    assert end == (
        f"Retired codes are not listed here. `collectrace explain {retired}` names what covers "
        f"{retired}.\n"
    )


@pytest.mark.parametrize(
    ("name", "meant"), [("CT32", "CT302"), ("absent-rnak", "CT302 (absent-rank)")]
)
def test_a_mistyped_code_names_those_alike(name: str, meant: str) -> None:
    status, out, err = run("explain", name)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert f"no cause {name!r}. Did you mean " in err
    assert meant in err


@pytest.mark.parametrize("name", ["zebra", "CT999", "died-"])
def test_a_code_that_no_code_in_use_is_like_is_one_line(name: str) -> None:
    status, out, err = run("explain", name)
    assert (status, out) == (2, "")
    assert err == f"collectrace: no cause {name!r}. collectrace explain lists the codes.\n"


def test_a_kind_of_finding_names_the_chapter_on_kinds() -> None:
    status, out, err = run("explain", "missing_call")
    assert (status, out) == (2, "")
    assert "It is a kind of finding: collectrace docs findings explains it." in err


def test_a_retired_code_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Cause(
        "CT998", "old-rule", "An old rule.", cause.ALL,
        status="retired", reason="CT102 says the same.",
    )  # fmt: skip
    monkeypatch.setattr(registry, "CAUSES", (*registry.CAUSES, row))
    status, out, err = run("explain", "ct998")
    assert (status, err) == (0, "")
    assert "Retired: CT102 says the same.\n" in out
    chapter = catalogue.chapter(registry.CAUSES)
    assert "| CT998 | old-rule | CT102 says the same. |" in chapter.partition("## Retired codes")[2]


def _on_terminal(*command: str) -> str:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    assert cli.main(command, out, io.StringIO()) == 0
    return out.getvalue()


def test_on_a_terminal_it_is_laid_out() -> None:
    seen = _on_terminal("explain", "CT302")
    assert "What it means" in seen
    assert "## What" not in seen


def test_on_a_terminal_a_link_is_the_command_that_shows_the_chapter() -> None:
    seen = _on_terminal("docs", "crashes")
    assert "docs hangs" in seen
    assert ".md" not in seen


def test_the_chapter_lists_all_causes() -> None:
    assert (DOCS / "causes.md").read_text() == catalogue.chapter(), "run: tools/causes --docs"


def test_the_chapter_lists_all_kinds_of_findings() -> None:
    written = (DOCS / "findings.md").read_text()
    assert written == causes_tool.with_kinds(written), "run: tools/causes --docs"


def test_find_raises_what_a_person_can_read() -> None:
    with pytest.raises(CollectraceError, match="Did you mean"):
        catalogue.find("CT10")
