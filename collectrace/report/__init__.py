"""Write findings as text, JSON and pages, for people and programs. Never imports torch.

:data:`REPORTS` lists the reports. Each is a separate module with one function,
``write(alignment, out)``, that writes the whole report to an open text stream. The command
opens files and handles their errors.
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
    """One way to report the findings to people or programs."""

    module: str
    """Module of this package that has ``write``. It is imported when the report is written."""

    what: str
    """What the reader gets. ``--help`` prints it after "write"."""

    option: str | None = None
    """``json`` for the option ``--json FILE``. None: the report goes to standard output unless
    another report does."""

    needs: str | None = None
    """A package that the report needs. It is not installed with collectrace, but with the extra
    that has the name of the option."""
    is_short: bool = False
    """Whether the option takes no file: the report replaces the one that needs no option."""

    @property
    def lacks(self) -> str | None:
        """Return the package that must be installed first; None: nothing is missing."""
        return self.needs if self.needs is not None and find_spec(self.needs) is None else None

    def write(self, alignment: Alignment, out: TextIO) -> None:
        """Write the whole report.

        Raises:
            OSError: ``out`` raised it.

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
"""In the order in which they are written: first the one that a person waits for."""
