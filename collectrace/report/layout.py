"""Lines of text on a console: wrapped, indented, in columns, without spaces at their ends.

rich draws tables and paddings in full rectangles; what it pads is noise in a file, in a diff
and in a mail. So rich is used for what it does best (colour where a terminal has it, the width
of characters, wrapping) and lines are laid out here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from collectrace.printable import masked

if TYPE_CHECKING:
    from rich.console import Console

WIDEST: Final = 110
"""Columns beyond which prose is hard to read, however wide the terminal."""

INDENT: Final = 2

ARROW: Final = "\N{BLACK LEFT-POINTING TRIANGLE}"
"""Before what a rank did at a line."""

SEPARATOR: Final = " \N{MIDDLE DOT} "

_ASCII: Final = str.maketrans({ARROW: "<", SEPARATOR[1]: "|"})

_NO_BREAK: Final = "\N{NO-BREAK SPACE}"
_HELD: Final = "\N{OBJECT REPLACEMENT CHARACTER}"
"""In place of a space at which rich is not to break a line."""

_DEFAULT_WIDTH: Final = 80

LABEL: Final = 8
"""Where the text behind a label begins."""

_NARROWEST_CELL: Final = 10

_NARROW: Final = 70
"""Columns below which a table takes what room there is."""


def seen(console: Console) -> Console:
    """Return a console that shows something, also to a terminal without columns (COLUMNS=0)."""
    if console.width <= 0:
        console.width = _DEFAULT_WIDTH
    return console


class Page:
    """Writes one line after the other to a console."""

    def __init__(self, console: Console) -> None:
        self.console = seen(console)
        self.width = min(console.width, WIDEST)

    @property
    def is_unicode(self) -> bool:
        """Whether the console can show any character."""
        return self.console.encoding.lower().startswith("utf")

    def line(self, text: Text | str = "", *, indent: int = 0) -> None:
        """One line as it is; one longer than the page is left for the terminal to wrap."""
        whole = Text(" " * indent) + (text if isinstance(text, Text) else Text(text))
        whole.rstrip()
        whole.plain = masked(whole.plain)
        if not whole.plain.isascii() and not self.is_unicode:
            encoding = self.console.encoding
            plain = whole.plain.translate(_ASCII)
            whole.plain = plain.encode(encoding, "replace").decode(encoding)
        self.console.print(whole, soft_wrap=True, highlight=False)

    def prose(
        self,
        text: Text | str,
        *,
        indent: int = 0,
        label: str = "",
        hang: int = 0,
        style: str = "bold",
    ) -> None:
        """Wrapped text; ``label`` stands before its first line, in the indentation.

        Lines after the first are indented by ``hang`` more; ``style`` is the label's. No line
        breaks at a no-break space, see :func:`unbroken`.
        """
        whole = text if isinstance(text, Text) else Text(text)
        first = (
            Text(" " * (indent - len(label) - 2) + label + "  ") if label else Text(" " * indent)
        )
        if label:
            first.stylize(style)
        for paragraph in whole.split("\n"):
            width = max(self.width - indent - hang, _NARROWEST_CELL)
            paragraph.plain = paragraph.plain.replace(_NO_BREAK, _HELD)
            for wrapped in paragraph.wrap(self.console, width):
                wrapped.plain = wrapped.plain.replace(_HELD, " ")
                self.line(first + wrapped)
                first = Text(" " * (indent + hang))

    def columns(
        self, rows: Sequence[tuple[Sequence[str], str]], *, indent: int, fixed: int
    ) -> None:
        """Cells side by side; the style goes over the whole row.

        The first ``fixed`` columns are as wide as they must be, the others share what is left,
        and fold what does not fit.
        """
        widths = self._widths([cells for cells, _ in rows], indent, fixed)
        for cells, style in rows:
            folded = [
                [part for line in Text(cell).split("\n") for part in line.wrap(self.console, width)]
                for cell, width in zip(cells, widths, strict=False)
            ]
            for n in range(max(map(len, folded), default=0)):
                line = Text()
                for cell, width in zip(folded, widths, strict=False):
                    part = cell[n].copy() if n < len(cell) else Text()
                    part.truncate(width, pad=True)
                    line += part + "  "
                line.stylize(style)
                self.line(line, indent=indent)

    def _widths(self, rows: Sequence[Sequence[str]], indent: int, fixed: int) -> list[int]:
        columns = list(zip_longest(*rows, fillvalue=""))
        natural = [
            max(cell_len(part) for c in column for part in c.split("\n")) for column in columns
        ]
        # A word is never broken; on a narrow page only a site is not, which in two pieces can be
        # neither clicked nor found.
        is_whole = re.compile(r":\d+\)?$" if self.width < _NARROW else "").search
        longest = [
            max((cell_len(w) for c in column for w in c.split() if is_whole(w)), default=0)
            for column in columns
        ]
        room = self.width - indent - 2 * (len(columns) - 1) - sum(natural[:fixed])
        return natural[:fixed] + share(natural[fixed:], longest[fixed:], room)


def unbroken(text: str) -> str:
    """Return a text in which each number stays on one line with the word behind it: ``4 ranks``."""
    return re.sub(r"(?<=\d) (?=\w)", _NO_BREAK, text)


def share(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths of columns: their ``natural`` ones where there is ``room``, else the widest give way.

    None gets narrower than its ``least``, even if the columns do not fit then.
    """
    widths = list(natural)
    floors = [max(n, _NARROWEST_CELL) for n in least]
    while sum(widths) > room:
        yielding = [n for n, width in enumerate(widths) if width > floors[n]]
        if not yielding:
            break
        widths[max(yielding, key=lambda n: widths[n])] -= 1
    return widths
