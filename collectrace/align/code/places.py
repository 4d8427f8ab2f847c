"""The places where expressions are evaluated, and the sources of their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from collectrace.align.code.files import Function
from collectrace.align.code.graph import Node
from collectrace.align.code.origins import Origin
from collectrace.align.code.paths import Context


class Site(NamedTuple):
    """A line of a file."""

    path: str
    line: int


class Agreements:
    """What the records show about results of collectives; by default, nothing."""

    def agreed(self, site: Site) -> bool:  # noqa: ARG002
        """Whether every call from a line completed before the first difference, on both sides.

        Only groups that contain both sides count.
        """
        return False

    def has_run(self, site: Site) -> bool:  # noqa: ARG002
        """Whether a rank may have made a collective from a line; False: none has."""
        return True


class Place(NamedTuple):
    """The place where an expression is evaluated."""

    function: Function
    node: Node | None
    """The step; None: somewhere in the function."""
    context: Context | None = None
    """The calls that led to the function; None: not known."""
    line: int = 0
    """Line of an expression if its step is not known."""


class Source(NamedTuple):
    """A part of an expression with a value that cannot be traced back further."""

    place: Place
    origin: Origin
    inner: Place | None = None
    """The place in a function that the expression calls, if it is there."""


def ignore_order(found: Iterable[Source]) -> Iterator[Source]:
    """Return sources of a value that does not depend on the order of a set."""
    for one in found:
        yield one._replace(origin=Origin.AGREED) if one.origin is Origin.ORDER else one


def as_data(found: Iterable[Source]) -> Iterator[Source]:
    """Return sources of a value that others select or compute, such as ``batches[rank]``.

    The rank selects such a value, which is weaker than a test of the rank.
    """
    for one in found:
        yield one._replace(origin=Origin.CHOSEN) if one.origin is Origin.RANK else one


def as_state(found: Iterable[Source]) -> Iterator[Source]:
    """Return sources of what an object holds, by what decides whether it is changed.

    A test of the rank there makes the object differ: it is no test of the rank any more.
    """
    for one in found:
        yield one._replace(origin=Origin.STATE) if one.origin is Origin.RANK else one


class Asked(Enum):
    """The property of a value that is traced. Random numbers, for example, decide no size."""

    VALUE = auto()
    SIZE = auto()
    """Of a tensor."""
    DTYPE = auto()
    """Of a tensor, which a ``with`` around its computation can change."""
    LENGTH = auto()
    """The number of items of a list."""
    IDENTITY = auto()
    """Which object it is, and not what the object holds by now."""


OF_FORM: Final = frozenset({Asked.SIZE, Asked.DTYPE, Asked.LENGTH})
"""Properties that do not depend on values such as random numbers, seeds, and fillings."""
