"""Lines of text on a console: wrapped, indented, in columns, without spaces at their ends.

rich pads tables to full rectangles, and the padding is noise in a file, a diff or a mail. So this
module lays out the lines. rich does the rest: colours, the width of characters, wrapping.
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
"""Columns. Wider prose is hard to read, even on a wide terminal."""

INDENT: Final = 2

ARROW: Final = "\N{BLACK LEFT-POINTING TRIANGLE}"
BELOW: Final = "\N{BLACK UP-POINTING TRIANGLE}"
"""Printed before what a rank did at a line."""

SEPARATOR: Final = " \N{MIDDLE DOT} "

_ASCII: Final = str.maketrans({ARROW: "<", BELOW: "^", SEPARATOR[1]: "|"})

_NO_BREAK: Final = "\N{NO-BREAK SPACE}"
_HELD: Final = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Replaces a space at which rich must not break a line."""

_DEFAULT_WIDTH: Final = 80

LABEL: Final = 8
"""The column in which the text after a label begins."""

_NARROWEST_CELL: Final = 10

_NARROW: Final = 70
"""Columns. On a narrower page, a table may break words."""


def seen(console: Console) -> Console:
    """Return the console, with a default width if the terminal reports none (COLUMNS=0)."""
    if console.width <= 0:
        console.width = _DEFAULT_WIDTH
    return console


class Page:
    """A console to which lines are written one after the other."""

    def __init__(self, console: Console) -> None:
        self.console = seen(console)
        self.width = min(console.width, WIDEST)

    @property
    def is_unicode(self) -> bool:
        """Return whether the console can show any character."""
        return self.console.encoding.lower().startswith("utf")

    def line(self, text: Text | str = "", *, indent: int = 0) -> None:
        """Write one line. If it is longer than the page, the terminal wraps it."""
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
        """Write wrapped text, with ``label`` in the indentation of its first line.

        Lines after the first are indented by ``hang`` more. ``style`` is the label's style.
        No line breaks at a no-break space, see :func:`unbroken`.
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
        """Write rows of cells, each with the style of the whole row.

        The first ``fixed`` columns are as wide as their content. The others share the remaining
        width and wrap what does not fit.
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
        # No word is broken. On a narrow page only sites stay whole: nobody can click or search
        # half of one.
        is_whole = re.compile(r":\d+\)?$" if self.width < _NARROW else "").search
        longest = [
            max((cell_len(w) for c in column for w in c.split() if is_whole(w)), default=0)
            for column in columns
        ]
        room = self.width - indent - 2 * (len(columns) - 1) - sum(natural[:fixed])
        return natural[:fixed] + share(natural[fixed:], longest[fixed:], room)


def unbroken(text: str) -> str:
    """Return the text with a no-break space between a number and the next word: ``4 ranks``."""
    return re.sub(r"(?<=\d) (?=\w)", _NO_BREAK, text)


def share(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return widths of columns that fit into ``room``: the widest ``natural`` ones shrink first.

    No column gets narrower than its ``least``, even if the columns do not fit then.
    """
    widths = list(natural)
    floors = [max(n, _NARROWEST_CELL) for n in least]
    while sum(widths) > room:
        yielding = [n for n, width in enumerate(widths) if width > floors[n]]
        if not yielding:
            break
        widths[max(yielding, key=lambda n: widths[n])] -= 1
    return widths
