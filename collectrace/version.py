"""Which collectrace this is; `pyproject.toml` reads it from here."""

from typing import Final

__version__: Final = "0.1.0"
