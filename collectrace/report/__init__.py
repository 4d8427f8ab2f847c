"""Findings in; text, JSON and pages for people and programs out. Never imports torch."""
