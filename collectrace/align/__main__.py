"""``python -m collectrace.align``: short for ``python -m collectrace align``."""

from collectrace.cli import console

if __name__ == "__main__":
    console("align")
