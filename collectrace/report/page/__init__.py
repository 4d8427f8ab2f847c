"""The report as one page for a browser. It needs no network and opens from any folder.

``page.html`` is the frame, and can be read without a script. ``page.css``, the parts of the script
and ``data`` as JSON are put into it. All text from a log passes through ``text.clean``; jinja2
escapes it, and the script sets it as text. A policy in the page allows only the one script and the
one style sheet, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any, Final, TextIO

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from collectrace.findings import Alignment
from collectrace.overview import Overview
from collectrace.report import text
from collectrace.report.page import content, data

_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
"""JSON escapes for characters that could end a script element or begin a comment in it."""


_SCRIPTS: Final = ("base", "map", "rows", "waits", "charts", "search", "main")


def write(alignment: Alignment, out: TextIO) -> None:
    """Write the page, in ASCII and with a final newline."""
    overview = alignment.overview() if alignment.overview is not None else Overview()
    environment = Environment(
        loader=FunctionLoader(_part),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["quoted"] = _quoted
    css, js = _part("page.css"), _script()
    page = environment.get_template("page.html").render(
        content.content(alignment, overview),
        # Safe without escaping: files of this package, and JSON that is escaped already.
        css=Markup(css),
        js=Markup(js),
        policy=f"default-src 'none'; script-src '{_hash(js)}'; style-src '{_hash(css)}'; "
        "base-uri 'none'; form-action 'none'",
        data=Markup(embedded(data.data(alignment, overview))),
    )
    out.write(page.encode("ascii", "xmlcharrefreplace").decode() + "\n")


def embedded(value: Any) -> str:
    """Return the value as JSON that is safe inside a script element."""
    return json.dumps(value, separators=(",", ":")).translate(_ESCAPES)


def _quoted(told: str) -> Markup:
    """Return the sentence escaped, with the text in backticks as code."""
    return Markup("").join(
        Markup("<code>{}</code>" if is_code else "{}").format(part)
        for is_code, part in text.pieces(told)
    )


def _script() -> str:
    """Return the parts of the script in one function, so that they share its scope."""
    return f"(() => {{\n{''.join(_part(f'{name}.js') for name in _SCRIPTS)}}})();"


def _part(name: str) -> str:
    return (resources.files(__name__) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
