"""Circles of waits: who of one departed from what its like do, a rule per file."""
