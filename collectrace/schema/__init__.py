"""The formats that others rely on, printed from the dataclasses that define them."""

from collectrace.schema.as_json_schema import dumps, json_schema
from collectrace.schema.as_text import describe
from collectrace.schema.formats import FINDINGS, RANK_FILE, Format

__all__ = ["FINDINGS", "RANK_FILE", "Format", "describe", "dumps", "json_schema"]
