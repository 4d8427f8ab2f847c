"""The exception for unreadable files of other tools."""

from __future__ import annotations


class NotReadable(ValueError):
    """A file cannot be read; the message continues its name: ``is cut short``."""
