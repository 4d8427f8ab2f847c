"""Post mortem: rank files in, findings out. Never imports torch."""
