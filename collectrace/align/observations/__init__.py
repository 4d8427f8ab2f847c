"""Observations: facts of a run that are useful to know, but not errors by themselves."""
