"""Findings in; text, JSON and pages for people and programs out. Never imports torch.

:data:`REPORTS` lists them. Each is a module of its own with one function,
``write(alignment, out)``, that writes the whole report to an open text stream. Files, standard
output and what goes wrong with them are the command's affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collectrace.findings import Alignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One way to tell people or programs what was found."""

    module: str
    """Module of this package with its ``write``, imported when the report is written."""

    what: str
    """What a reader gets, to follow "write" in ``--help``."""

    option: str | None = None
    """``json`` for the option ``--json FILE`` that asks for it; None: it goes to standard output
    unless another report does."""

    needs: str | None = None
    """A package that it needs, and that is not installed with this one but as the extra that is
    named as the option."""
    is_short: bool = False
    """The option takes no file: the report stands in place of the one that needs no option."""

    @property
    def lacks(self) -> str | None:
        """What has to be installed before it can be written; None: nothing."""
        return self.needs if self.needs is not None and find_spec(self.needs) is None else None

    def write(self, alignment: Alignment, out: TextIO) -> None:
        """Write the whole report.

        Raises:
            OSError: as ``out`` raises it.

        """
        import_module(f"{__name__}.{self.module}").write(alignment, out)


REPORTS: Final = (
    Report(module="terminal", what="the report for people"),
    Report(
        module="verbose",
        what="all that is known of each finding and of every rank",
        option="verbose",
        is_short=True,
    ),
    Report(module="verbose", what="the same as --verbose", option="decisions", is_short=True),
    Report(
        module="brief",
        what="ten lines at most, for a chat or an agent",
        option="brief",
        is_short=True,
    ),
    Report(module="machine", what="the findings as JSON", option="json"),
    Report(module="page", what="one page for a browser", option="html", needs="jinja2"),
    Report(module="markdown", what="the report as Markdown", option="markdown"),
)
"""In the order in which they are written: what a person waits for first."""
