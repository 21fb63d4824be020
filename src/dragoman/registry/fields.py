"""The fields of a schema as a flat list of paths, for showing what changed between two versions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dragoman.core.errors import InvalidSchema

Fields = dict[str, str]
"""From a path such as ``customer.address[].street`` to what is said about it."""


def fields_of(type: str, text: str) -> Fields:
    """``text`` is normalised: only what matters differs. Raises ``InvalidSchema`` if it is too deep."""
    with _within_reach():
        if type == "AVRO":
            return dict(_avro(json.loads(text), ""))
        if type == "JSON":
            return dict(_json(json.loads(text), ""))
        return dict(_definitions(text))


def outer_fields(type: str, text: str) -> frozenset[str]:
    """The names of the fields of the outermost record, object, message or struct."""
    if type in ("AVRO", "JSON"):
        with _within_reach():
            schema = json.loads(text)
        found = schema.get("fields" if type == "AVRO" else "properties") if isinstance(schema, dict) else None
        return frozenset(each["name"] if type == "AVRO" else each for each in found or ())
    paths = (path.split(".") for path in fields_of(type, text))
    return frozenset(path[1] for path in paths if len(path) == 2)


@contextmanager
def _within_reach() -> Iterator[None]:
    """A schema may be valid and yet nested deeper than the usual reader of JSON can go."""
    try:
        yield
    except RecursionError:
        raise InvalidSchema("The schema is nested too deeply to tell its fields.") from None


def _avro(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    """Iterative, since schemas may be nested deeply; ``path`` names the field that has this schema."""
    waiting = [(schema, path)]
    while waiting:
        schema, path = waiting.pop()
        if isinstance(schema, list):
            waiting += [(branch, path) for branch in schema]
        if not isinstance(schema, dict):
            continue
        kind = schema.get("type")
        if kind == "array":
            waiting.append((schema.get("items"), f"{path}[]"))
        elif kind == "map":
            waiting.append((schema.get("values"), f"{path}{{}}"))
        elif kind == "enum":
            yield path or schema.get("name", ""), f"enum {', '.join(schema.get('symbols', ()))}"
        elif kind in ("record", "error"):
            for field in schema.get("fields", ()):
                place = f"{path}.{field['name']}" if path else field["name"]
                yield place, _avro_field(field)
                waiting.append((field["type"], place))
        elif isinstance(kind, dict | list):
            waiting.append((kind, path))


def _avro_field(field: dict[str, Any]) -> str:
    default = f" = {json.dumps(field['default'])}" if "default" in field else ""
    return _avro_type(field["type"]) + default


def _avro_type(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    if isinstance(schema, list):
        return " | ".join(_avro_type(branch) for branch in schema)
    kind = schema.get("type")
    logical = schema.get("logicalType")
    if logical:
        size = f"({schema['precision']}, {schema.get('scale', 0)})" if "precision" in schema else ""
        return f"{logical}{size}"
    if kind in ("record", "error", "enum", "fixed"):
        size = f"({schema['size']})" if "size" in schema else ""
        return f"{kind} {schema.get('name', '')}{size}"
    return kind if isinstance(kind, str) else _avro_type(kind)


_INNER = ("properties", "patternProperties", "$defs", "definitions")


def _json(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    waiting = [(schema, path)]
    while waiting:
        schema, path = waiting.pop()
        if not isinstance(schema, dict):
            yield path, json.dumps(schema)
            continue
        required = schema.get("required", ())
        said = {name: value for name, value in schema.items() if not isinstance(value, dict | list)}
        said |= {name: schema[name] for name in ("enum", "type", "required") if name in schema}
        if path:
            yield path, json.dumps(said, sort_keys=True) if set(said) != {"type"} else str(said["type"])
        for name, value in schema.items():
            if name in _INNER and isinstance(value, dict):
                for key, inner in value.items():
                    mark = "" if key in required or name != "properties" else "?"
                    place = key if name == "properties" else f"{name}/{key}"
                    waiting.append((inner, f"{path}.{place}{mark}" if path else f"{place}{mark}"))
            elif name == "items" and isinstance(value, dict):
                waiting.append((value, f"{path}[]"))
            elif isinstance(value, dict):
                waiting.append((value, f"{path}/{name}"))
            elif isinstance(value, list):
                members = [(each, f"{path}/{name}/{number}") for number, each in enumerate(value)]
                waiting += [member for member in members if isinstance(member[0], dict)]


# What is written here is linear in the length of a line, which may be megabytes long.
_OPENING = re.compile(r"(\w+)\s+([\w.]+)?")
_NUMBERED = re.compile(r"\d+\s*:")
_WORD = re.compile(r"\w+")


def _definitions(text: str) -> Iterator[tuple[str, str]]:
    """The members of blocks in Protobuf's and Thrift's canonical text, one to a line."""
    path: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        opened = _OPENING.match(stripped) if stripped.endswith("{") and ";" not in stripped else None
        if opened:
            path.append(opened.group(2) or opened.group(1))
            yield ".".join(path), opened.group(1)
        elif stripped.startswith("}"):
            path = path[:-1]
        elif stripped:
            yield ".".join([*path, _member(stripped)]), stripped.rstrip(";,")


def _member(line: str) -> str:
    """The name in ``string name = 1;`` or ``1: required string name``; the line itself if it is neither."""
    before, _, after = line.partition("=")
    if not (_NUMBERED.match(line) or after.lstrip()[:1].isdigit()):
        return line
    words = _WORD.findall(before)
    return words[-1] if words else line
