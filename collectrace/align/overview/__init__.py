"""Build the overview of a run for pictures: see :mod:`collectrace.overview`."""

from collectrace.align.overview.build import build

__all__ = ["build"]
