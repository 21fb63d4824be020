"""JSON Schema and JSON payloads."""

from dragoman.formats.json.format import JsonFormat

__all__ = ["JsonFormat"]
