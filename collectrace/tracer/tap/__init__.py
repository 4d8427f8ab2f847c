"""The dispatcher tap, which sees every collective on its way to a backend."""
