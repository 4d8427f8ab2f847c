"""The tracer: records torch operations in rank files. Only this package imports torch."""
