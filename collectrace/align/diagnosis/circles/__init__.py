"""Circles of waits in words, a file per rule that told who departed."""
