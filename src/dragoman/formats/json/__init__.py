"""JSON Schema and JSON payloads."""

from dragoman.formats.json.description import describe_schema, type_of_schema
from dragoman.formats.json.format import JsonFormat
from dragoman.formats.json.inference.infer import Guesses, infer
from dragoman.formats.json.parsed import JsonSchema
from dragoman.formats.json.schema_of import schema_text

__all__ = ["Guesses", "JsonFormat", "JsonSchema", "describe_schema", "infer", "schema_text", "type_of_schema"]
