"""A judged candidate in words: what happened, why, and what to change."""
