"""Runtime: torch operations in, rank files out. Imports torch; nothing else here does."""
