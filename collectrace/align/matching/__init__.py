"""Compare ranks with each other: find the calls in which streams differ."""
