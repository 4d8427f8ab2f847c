"""Show a chapter of the documentation, list the chapters, or find those that use a word.

On a terminal the chapter is laid out for reading. A pipe or a file gets its Markdown.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib.resources import files
from typing import Final, TextIO

from collectrace.commands import output
from collectrace.errors import CollectraceError

HELP: Final = "show a chapter of the documentation, or list the chapters"

SECTIONS: Final = {
    "How-to guides": {
        "hangs": "My job hangs",
        "crashes": "My job crashed with a timeout",
        "unmodified": "I cannot change the script",
        "dumps": "I only have Flight Recorder dumps",
        "ci": "In tests and in CI",
        "launchers": "On Slurm, Kubernetes, Ray and other launchers, and on many machines",
        "online": "The hosts share no folder: let the job diagnose itself",
    },
    "Reference": {
        "report": "The parts of a report, and its words",
        "commands": "The commands, their options and exit statuses, and the Python API",
        "options": "The options of the recorder, as arguments and as variables",
        "records": "The rank files, and the names of calls that frameworks issue",
        "findings": "The kinds of findings, and their JSON",
        "causes": "The causes of findings, by their codes",
        "evidence": "The facts that decide which rank is a suspect, with their weights",
        "waits": "What a busy rank can wait for",
        "privacy": "What a log contains, who can read it, and how to share a redacted copy",
    },
    "Background": {
        "decides": "How a verdict is reached, and how often it is right",
        "design": "The architecture of the source code",
        "cost": "What tracing and reading cost: the overhead in time, disk and memory",
        "scale": "Bytes, requests and seconds for 100,000 ranks, and what breaks first",
        "limits": "What collectrace cannot see, and where it has been tested",
        "compare": "Other tools, and what each does better",
    },
    "Measured figures": {
        "figures": "Measured figures, with dates and commands",
    },
}
"""The chapters by the kind of help that a reader looks for: ``docs/NAME.md``."""

CHAPTERS: Final = {name: about for part in SECTIONS.values() for name, about in part.items()}
"""What each chapter is about, in the order of the list."""

_WIDEST: Final = 100
"""Most columns of prose, however wide the terminal."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the chapter."""
    parser.add_argument(
        "chapter", nargs="*", metavar="CHAPTER",
        help="chapters, such as hangs; or words to look for (default: list the chapters)",
    )  # fmt: skip


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - as every command
    """Show chapters, the list, or where words are used.

    Raises:
        CollectraceError: there is no such chapter, and no chapter uses the words.

    """
    asked = " ".join(arguments.chapter)
    chapters = [f"{asked.lower()}{plural}" for plural in ("", "s", "es")]
    named = [one for one in arguments.chapter if one in CHAPTERS]
    chapter = next((one for one in chapters if one in CHAPTERS), None)
    if not arguments.chapter:
        text = _list()
    elif len(named) == len(arguments.chapter):
        text = "\n".join(map(read, named))
    else:
        text = read(chapter) if chapter is not None else _places(asked)
    output.write_to(output.STDOUT, stdout, lambda out: show(text, out))
    return 0


def read(chapter: str) -> str:
    """Return a chapter as Markdown."""
    text = (files("collectrace") / "docs" / f"{chapter}.md").read_text(encoding="utf-8")
    return _COMMENT.sub("", text)


_COMMENT: Final = re.compile(r"<!--.*?-->\n*", re.DOTALL)


def _places(sought: str) -> str:
    """Return the chapters that use a word, or several in sequence, and the headings above it.

    If none has several words in sequence, those with all of them below one heading count.

    Raises:
        CollectraceError: none uses it.

    """
    if re.fullmatch(r"ct\d+", sought.lower()):
        shown = f"{sought} is a cause. collectrace explain {sought.upper()} shows it."
        raise CollectraceError(shown)
    words = re.split(r"[\s-]+", sought)  # "out of memory" is written out-of-memory, too
    phrase = r"[\s-]+".join(map(re.escape, words))
    ways = [[phrase], [re.escape(one) for one in words]] if re.search(r"\w", sought) else []
    found: dict[str, list[str]] = {}
    for way in ways:
        found = found or _sections_with([re.compile(rf"\b{one}", re.IGNORECASE) for one in way])
    if not found:
        like = output.meant(sought.lower(), CHAPTERS) or " collectrace docs lists the chapters."
        raise CollectraceError(f"no chapter has the name {sought!r}, and none contains it.{like}")
    widest = max(map(len, CHAPTERS))
    lines = [f"{sought} is used in", ""]
    for chapter, headings in found.items():
        lines += [
            f"    {name:{widest}}  {heading}"
            for name, heading in zip([chapter, *[""] * len(headings)], headings, strict=False)
        ]
    return "\n".join([*lines, ""])


def _sections_with(sought: Sequence[re.Pattern[str]]) -> dict[str, list[str]]:
    """Return by chapter what it is about, or its headings, if all patterns occur there.

    Chapters that are about it come first, then those with most places.
    """
    found: dict[str, list[str]] = {}
    for chapter, about in CHAPTERS.items():
        parts = {about: about}
        heading, is_text = "", True
        for line in read(chapter).splitlines():
            is_text ^= line.lstrip().startswith("```")
            heading = line.lstrip("# ") if is_text and line.startswith("#") else heading
            parts[heading] = f"{parts.get(heading, '')}\n{line}"
        hits = [name for name, text in parts.items() if all(one.search(text) for one in sought)]
        if hits:
            found[chapter] = hits

    def order(chapter: str) -> tuple[bool, int]:
        return CHAPTERS[chapter] not in found[chapter], -len(found[chapter])

    return {chapter: found[chapter] for chapter in sorted(found, key=order)}


def _list() -> str:
    widest = max(map(len, CHAPTERS))
    lines = ["collectrace docs CHAPTER"]
    for title, chapters in SECTIONS.items():
        lines += ["", title]
        lines += [f"    {name:{widest}}  {about}" for name, about in chapters.items()]
    return "\n".join([*lines, ""])


def show(text: str, out: TextIO) -> None:
    """Write a text; Markdown is laid out if it goes to a terminal."""
    if not out.isatty() or not text.startswith("#"):
        out.write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    from collectrace.report import layout

    console = layout.seen(Console(file=out))
    console.print(Markdown(_named(text)), width=min(console.width, _WIDEST))


_LINK: Final = re.compile(r"\[([^\]]+)\]\((?:(\w+)\.md)?(?:#[^)]*)?\)")


def _named(text: str) -> str:
    """Replace links to chapters, which no terminal opens, by the commands that show them."""

    def command(link: re.Match[str]) -> str:
        said, chapter = link[1], link[2]
        if chapter not in CHAPTERS:
            return said
        return f"`docs {chapter}`" if said == chapter else f"{said} (`docs {chapter}`)"

    return _LINK.sub(command, text)
