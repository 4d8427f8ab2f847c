"""The ranks of a running job compare notes through its store, and say themselves what is wrong."""
