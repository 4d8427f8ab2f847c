"""Readers that convert traces of other tools to rank files."""
