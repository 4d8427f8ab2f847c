"""Show a chapter of the documentation, or list them.

On a terminal it is laid out for reading; into a pipe or a file it goes as the Markdown it is.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib.resources import files
from typing import Final, TextIO

from collectrace.commands import output
from collectrace.errors import CollectraceError

HELP: Final = "show a chapter of the documentation"

CHAPTERS: Final = {
    "report": "how to read a report: its parts, its words, the options of `align`",
    "around": "a folder's runs, a rank's calls, two runs compared; timeline, Markdown, notebooks",
    "dumps": "what torch itself leaves of a job that was not traced, read as if it had been",
    "hangs": "what is recorded of a hang, and the verdict that is printed by itself",
    "online": "the verdict on the job's own standard error, while it hangs",
    "launchers": "torchrun, Slurm, Kubernetes, Accelerate, Lightning, DeepSpeed, Ray; logs of many "
    "machines",
    "options": "of `enable()`, of `collectrace run`, as variables",
    "causes": "every cause that a finding can have, by its code",
    "evidence": "every fact that decides who is to blame, with its weight",
    "records": "what a rank file holds, and what it calls the parts of frameworks",
    "privacy": "what a log holds of you, who can read it, and a copy to give away",
    "decides": "how a verdict comes about, and how often it is right beside torch's own tools",
    "compare": "Flight Recorder, DETAIL, the debug server, NCCL RAS: what each can tell",
    "cost": "what tracing and reading cost, measured",
    "limits": "what it can't see; on which versions of torch it was run",
    "design": "the source: rooms, tables, choices",
}
"""What each is about, in the order in which a new user may want them: ``docs/NAME.md``."""

_WIDEST: Final = 100
"""Columns that prose takes, however wide the terminal."""


def add_arguments(parser: ArgumentParser) -> None:
    """Which chapter."""
    parser.add_argument(
        "chapter", nargs="?", metavar="CHAPTER", help="such as report; default: list them"
    )


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - as every command
    """Show it.

    Raises:
        CollectraceError: there is no such chapter.

    """
    text = _list() if arguments.chapter is None else read(arguments.chapter)
    output.write_to(output.STDOUT, stdout, lambda out: show(text, out))
    return 0


def read(chapter: str) -> str:
    """A chapter, as Markdown.

    Raises:
        CollectraceError: there is no such chapter.

    """
    if chapter not in CHAPTERS:
        raise CollectraceError(f"no chapter {chapter!r}; there are {', '.join(CHAPTERS)}")
    return (files("collectrace") / "docs" / f"{chapter}.md").read_text(encoding="utf-8")


def _list() -> str:
    widest = max(map(len, CHAPTERS))
    lines = (f"    {name:{widest}}  {about}" for name, about in CHAPTERS.items())
    return "\n".join(["python -m collectrace docs CHAPTER", "", *lines, ""])


def show(text: str, out: TextIO) -> None:
    """Write a text; Markdown is laid out if it goes to a terminal."""
    if not out.isatty() or not text.startswith("#"):
        out.write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    from collectrace.report import layout

    console = layout.seen(Console(file=out))
    console.print(Markdown(text), width=min(console.width, _WIDEST))
