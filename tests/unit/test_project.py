"""Statements of the project about itself that no other test would notice to be wrong."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import collectrace
from collectrace import cli
from collectrace.commands import docs
from tools import pictures

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGE = Path(collectrace.__file__).parent


@pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("git") is None, reason="no checkout"
)
def test_nothing_is_kept_that_is_to_be_ignored() -> None:
    git = ["git", "-C", str(ROOT), "-c", f"safe.directory={ROOT}"]
    kept = [*git, "ls-files", "--cached", "--ignored", "--exclude-standard"]
    assert not subprocess.run(kept, check=True, capture_output=True, text=True).stdout


def test_programs_are_functions() -> None:
    for target in PROJECT["scripts"].values():
        module, _, name = target.partition(":")
        assert callable(getattr(import_module(module), name))


def test_the_package_is_typed_and_says_so() -> None:
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (PACKAGE / "py.typed").read_text() == ""


PAGES = [ROOT / "README.md", *sorted((PACKAGE / "docs").glob("*.md"))]


def test_what_readers_and_contributors_are_sent_to_exists() -> None:
    """What stands in backticks and looks like a file or folder of the project."""
    texts = (page.read_text() for page in (*PAGES, ROOT / ".github" / "CONTRIBUTING.md"))
    named = {
        name
        for text in texts
        for name in re.findall(r"`((?:collectrace|tests|tools)/[\w./*]+)`", text)
    }
    assert named
    assert [name for name in sorted(named) if not list(ROOT.glob(name))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def commands_in(page: Path) -> list[str]:
    """Return the commands of collectrace that a page shows, in blocks and in backticks."""
    text = page.read_text()
    shown = re.findall(r"^ *\$ (?:.*-m )?collectrace (.*?)(?: +#.*)?$", text, re.MULTILINE)
    return [*shown, *re.findall(r"`(?:collectrace )?(align logs/[^`]*)`", text)]


@pytest.mark.parametrize(
    "command", sorted({command for page in PAGES for command in commands_in(page)})
)
def test_a_command_that_is_shown_can_be_typed(command: str) -> None:
    cli.parser("collectrace").parse_args(shlex.split(command))


def anchors(page: Path) -> set[str]:
    """Return the names that a link may give after ``#``, as GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_a_section_name_one(page: Path) -> None:
    for target, section in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        assert section in anchors(page.parent / target if target else page), section


def test_the_first_page_is_short_and_names_every_chapter() -> None:
    text = PAGES[0].read_text()
    assert len(text.splitlines()) < 150
    linked = re.findall(r"\[([^]]+)\]\(collectrace/docs/(\w+)\.md\)", text)
    how_to = docs.SECTIONS["How-to guides"]
    assert linked == [(how_to.get(name, name), name) for name in docs.CHAPTERS]
    assert {page.stem for page in PAGES[1:]} == set(docs.CHAPTERS)


@pytest.mark.parametrize("name", docs.CHAPTERS)
def test_the_title_of_a_guide_is_that_of_the_list(name: str) -> None:
    title = docs.read(name).partition("\n")[0].removeprefix("# ")
    how_to = docs.SECTIONS["How-to guides"]
    assert how_to.get(name, title) == title


def test_a_picture_loads_nothing() -> None:
    for picture in (PACKAGE / "docs" / "pictures").glob("*.svg"):
        assert not pictures.LOADED.findall(picture.read_text())
