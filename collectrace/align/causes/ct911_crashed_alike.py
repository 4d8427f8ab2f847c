"""Ranks ended with an exception although their collectives match.

What it means
    No rank skipped a call. The exception itself is the error. It does not come from the
    collectives, unless the finding names work that nobody waited for.

Example
    ::

        raise ValueError("loss is not finite")      # on every rank

Not to be confused with
    CT302, if others wait for the rank that raised.

How to fix it
    Fix what raised.
"""
