"""``python -m collectrace``."""

from collectrace.cli import console

if __name__ == "__main__":
    console()
