"""``python -m collectrace.align``: short for ``python -m collectrace align``."""

import sys

from collectrace.cli import main

if __name__ == "__main__":
    sys.exit(main(["align", *sys.argv[1:]], sys.stdout, sys.stderr))
