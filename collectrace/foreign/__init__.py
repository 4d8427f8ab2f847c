"""Traces that other tools wrote, read into rank files: from there all is as with our own."""
