"""Rank against rank: where the streams differ."""
