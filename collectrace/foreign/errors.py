"""What goes wrong with a file of another tool."""

from __future__ import annotations


class NotReadable(ValueError):
    """Why one file cannot be read, as what follows its name: ``is cut short``."""
