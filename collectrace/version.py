"""The version of collectrace; the build reads it from here."""

__version__ = "0.1.0"
