"""Torch's debug server with the verdict on its front page.

::

    from collectrace.debug import start_debug_server
    start_debug_server()          # in place of torch.distributed.debug.start_debug_server()

The server is torch's own (torch/distributed/debug): a page that rank 0 serves on port 25999. In
torch 2.13 it takes a list of handlers, and a later handler replaces the paths of an earlier one
(``FrontendServer.__init__`` in _frontend.py). So the front page becomes ours, and nothing is
patched. A server that takes no handlers starts unchanged, with a warning.

A handler on every rank's server (``torch._C._distributed_c10d._register_handler``) is not used.
That registry outlives the interpreter. Releasing a Python function then ended processes with a
fatal error (2.13).
"""

from __future__ import annotations

import inspect
import io
import logging
import os
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collectrace.findings import Alignment

log = logging.getLogger("collectrace")

NAME: Final = "collectrace"
_WIDTH: Final = 100
_TEMPLATE: Final = """\
{% extends "base.html" %}
{% block header %}<h1>{% block title %}collectrace{% endblock %}</h1>{% endblock %}
{% block content %}{{ page }}{% endblock %}
"""
"""The template of the page; ``page`` is HTML, which the server's templates do not escape."""


class Link(NamedTuple):
    """A link, like torch's ``NavLink``."""

    path: str
    label: str


class Route(NamedTuple):
    """A route, like torch's ``Route``."""

    path: str
    handler: Callable[[Any], bytes]


class VerdictPage:
    """A handler of torch's debug server that shows the current verdict on the logs.

    It has the interface of torch's ``DebugHandler`` without being one, because reading logs needs
    no torch. ``log_dir`` is the folder of the runs, of which the latest counts. Ranks of other
    machines are included if that folder is shared.
    """

    fetch_timeout = 60.0
    """Set by torch; nothing is fetched."""

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        self.log_dir = os.fspath(log_dir)

    def routes(self) -> list[Route]:
        """The routes of the page; the front page is one of them."""
        return [Route("/", self._page), Route(f"/{NAME}", self._page)]

    def nav_links(self) -> list[Link]:
        """The links at the head of every page."""
        return [Link(f"/{NAME}", NAME)]

    def templates(self) -> dict[str, str]:
        """The templates by name."""
        return {f"{NAME}.html": _TEMPLATE}

    def dump(self) -> str | None:
        """Return the report, for the server's periodic dumps."""
        alignment, problem = self._aligned()
        return problem if alignment is None else _report(alignment)

    def dump_filename(self) -> str:
        """Return the name that ``enabled_dumps`` uses."""
        return NAME

    def _page(self, request: Any) -> bytes:
        alignment, problem = self._aligned()
        if alignment is None:
            page = f"<p>no verdict: {escape(problem)}</p>"
        else:
            page = f"{alignment._repr_html_()}<pre>{escape(_report(alignment))}</pre>"
        rendered: bytes = request.frontend.render_template(f"{NAME}.html", page=page)
        return rendered

    def _aligned(self) -> tuple[Alignment | None, str]:
        """Return the verdict, or the reason why there is none."""
        from collectrace.align import align
        from collectrace.printable import clean

        try:
            return align(self.log_dir), ""
        except Exception as problem:  # noqa: BLE001 - a page says so, and the server goes on
            return None, clean(str(problem) or type(problem).__name__)


def _report(alignment: Alignment) -> str:
    from rich.console import Console

    from collectrace.report import terminal

    out = io.StringIO()
    terminal.render(alignment, Console(file=out, width=_WIDTH, color_system=None))
    return out.getvalue()


def start_debug_server(*, log_dir: str | os.PathLike[str] | None = None, **options: Any) -> bool:
    """Start torch's debug server on every rank, if this torch has one.

    Args:
        log_dir: the folder of the runs; default: that of the tracer, or of ``enable()``.
        options: those of ``torch.distributed.debug.start_debug_server``. The verdict is added to
            ``handlers``.

    Returns:
        Whether there is one. If not, a warning is logged and nothing is started.

    Raises:
        Exception: what torch's own function raises: a port that is taken, a package that it lacks.

    """
    try:
        from torch.distributed import debug as of_torch

        start = of_torch.start_debug_server
    except (ImportError, AttributeError):
        log.warning("collectrace: this torch has no debug server (torch.distributed.debug)")
        return False
    if "handlers" not in inspect.signature(start).parameters:
        log.warning("collectrace: the debug server of this torch takes no pages of others")
    elif os.environ.get("RANK") == "0":
        given = options.get("handlers")
        if given is None:
            from torch.distributed.debug._debug_handlers import default_handlers

            given = default_handlers()
        options["handlers"] = [*given, VerdictPage(log_dir or _log_dir())]
    start(**options)
    return True


def _log_dir() -> Path:
    from collectrace.config import Config
    from collectrace.tracer import switch

    session = switch.current()
    return session.config.log_dir if session is not None else Config.from_environment().log_dir
