"""What the programs share: tracing on request, and losses whose bits can be compared."""

import os
import sys

TWIN = "--twin" in sys.argv
"""Whether the correct twin of a mistake is asked for."""

if "--traced" in sys.argv:
    sys.argv.remove("--traced")
    import collectrace

    collectrace.enable("logs")


def told(what, value):
    """Print a value, every bit of it, in one piece."""
    os.write(1, f"LOSS {os.environ['RANK']} {what} {float(value).hex()}\n".encode())
