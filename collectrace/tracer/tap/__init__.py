"""The dispatcher tap: every collective that reaches a backend."""
