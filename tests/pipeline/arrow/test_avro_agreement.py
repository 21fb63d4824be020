"""Columns and the client's codec give the same values for schemas that changed by aliases and unions."""

from __future__ import annotations

import io
import json
from datetime import datetime
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from tests.pipeline.arrow.avro_cases import schema_text, without_logical, written
from tests.pipeline.arrow.evolutions import NAMED, Evolution, kind_of, simple

from dragoman.core.errors import DragomanError, MessageError
from dragoman.core.loading import FORMATS, load
from dragoman.pipeline.arrow import Decoder, Mapping
from dragoman.pipeline.arrow.variant import to_json

REFUSED = object()
ABSTAINS = object()
PARTS = 8
SEEDS = 400
"""In each part. Three in four evolutions are accepted."""


@pytest.mark.parametrize("part", range(PARTS))
def test_columns_hold_what_the_codec_reads(part: int) -> None:
    accepted = votes = 0
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        case = Evolution(seed)
        codec = codec_of(case)
        if codec is None:
            continue
        accepted += 1
        frames = [written(case.writer, value, 1) for value in case.values]
        cells = read_as_columns(case, frames)
        for frame, cell in zip(frames, cells, strict=True):
            plain = read_by(codec, frame)
            assert agree(case.reader, plain, cell), (seed, case.writer, case.reader, plain, cell)
        for vote, cell in zip(votes_of_fastavro(case, frames), cells, strict=True):
            if vote is not ABSTAINS and cell is not REFUSED:
                votes += 1
                assert voted(case.reader, vote, cell), (seed, case.writer, case.reader, vote, cell)
    assert accepted > SEEDS // 2 and votes > SEEDS


@pytest.mark.parametrize("part", range(2))
def test_unions_kept_as_json_hold_what_the_codec_reads(part: int) -> None:
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        case = Evolution(seed)
        codec = codec_of(case)
        if codec is None:
            continue
        frames = [written(case.writer, value, 1) for value in case.values]
        cells = read_as_columns(case, frames, Mapping(unions="json"))
        for frame, cell in zip(frames, cells, strict=True):
            plain = read_by(codec, frame)
            assert agree(case.reader, plain, cell), (seed, case.writer, case.reader, plain, cell)


def codec_of(case: Evolution) -> Any:
    """The client's, ``None`` if the registry does not accept the evolution."""
    format = load(FORMATS, "AVRO")()
    try:
        writer, reader = (format.parse(json.dumps(each)) for each in (case.writer, case.reader))
    except DragomanError:
        return None
    if format.incompatibilities(reader, writer):
        return None
    return format.codec(writer, reader)


def read_as_columns(case: Evolution, frames: list[bytes], mapping: Mapping | None = None) -> list[Any]:
    decoder = Decoder(schema_text(case.reader), {1: schema_text(case.writer)}.__getitem__, mapping)
    decoded = decoder.decode(pa.array(frames, pa.binary()))
    decoded.values.validate(full=True)
    cells = decoded.values.to_pylist()
    return [REFUSED if row in decoded.rejections else cell for row, cell in enumerate(cells)]


def read_by(codec: Any, frame: bytes) -> Any:
    try:
        return codec.decode(frame[5:])
    except MessageError:
        return REFUSED


def agree(schema: Any, plain: Any, cell: Any) -> bool:
    """Whether a column's cell is the codec's value. A union's cell has its value in one member."""
    if plain is REFUSED or cell is REFUSED:
        return plain is cell
    match kind_of(schema):
        case "union":
            return _agree_in_union(schema, plain, cell)
        case "record":
            fields = schema["fields"]
            return plain.keys() == cell.keys() and all(
                agree(each["type"], plain[each["name"]], cell[each["name"]]) for each in fields
            )
        case "array":
            pairs = list(zip(plain, cell, strict=True))
            return all(agree(schema["items"], one, other) for one, other in pairs)
        case "map":
            cells = dict(cell)
            return plain.keys() == cells.keys() and all(
                agree(schema["values"], plain[key], cells[key]) for key in plain
            )
        case _:
            plain = str(plain) if isinstance(plain, UUID) else plain
            alike = type(plain) is type(cell) and plain == cell
            return alike and (not isinstance(plain, datetime) or bool(plain.tzinfo) == bool(cell.tzinfo))


def _agree_in_union(schema: list[Any], plain: Any, cell: Any) -> bool:
    if cell is None:
        return plain is None
    if isinstance(cell, str) and not _optional(schema):
        return cell == to_json(plain)
    branch, value = _taken(schema, cell)
    return agree(branch, plain, value)


def _taken(schema: list[Any], cell: Any) -> tuple[Any, Any]:
    """The branch of a union that a cell is in, and its value."""
    branches = [each for each in schema if each != "null"]
    if _optional(schema):
        return branches[0], cell
    members = zip(branches, cell.values(), strict=True)
    ((branch, value),) = [(each, value) for each, value in members if value is not None]
    return branch, value


def _optional(schema: list[Any]) -> bool:
    return len(schema) == 2 and "null" in schema


def votes_of_fastavro(case: Evolution, frames: list[bytes]) -> list[Any]:
    """Values with the name of the branch for named types in unions."""
    if fastavro_differs(case.reader, field_names(case.writer)):
        return [ABSTAINS] * len(frames)
    schemas = [fastavro.parse_schema(without_logical(each)) for each in (case.writer, case.reader)]
    return [_vote(schemas, frame) for frame in frames]


def _vote(schemas: list[Any], frame: bytes) -> Any:
    try:
        return fastavro.schemaless_reader(io.BytesIO(frame[5:]), *schemas, return_named_type=True)
    except (fastavro.read.SchemaResolutionError, KeyError):  # it takes less than the registry accepts
        return ABSTAINS


def voted(schema: Any, vote: Any, cell: Any) -> bool:
    """Whether fastavro has chosen the same fields and the same branches. It gives defaults as JSON."""
    match kind_of(schema):
        case "union":
            if cell is None:
                return vote is None
            branch, value = _taken(schema, cell)
            if not isinstance(vote, tuple):
                return voted(branch, vote, value)
            return vote[0] == branch.get("name") and voted(branch, vote[1], value)
        case "record":
            return all(
                voted(each["type"], vote[each["name"]], cell[each["name"]]) for each in schema["fields"]
            )
        case "array":
            return all(voted(schema["items"], a, b) for a, b in zip(vote, cell, strict=True))
        case "map":
            return all(voted(schema["values"], vote[key], value) for key, value in cell)
        case "int" | "long" | "string" | "bytes" if isinstance(schema, dict):
            return True  # fastavro votes on what meets what, not on the meaning of logical types
        case "string" | "bytes" | "fixed":
            return _text(vote) == _text(cell)
        case _:
            return bool(vote == cell)


def _text(value: str | bytes) -> str:
    return value.encode().decode("latin-1") if isinstance(value, str) else value.decode("latin-1")


def fastavro_differs(schema: Any, written: set[str]) -> bool:
    """Where fastavro is known to choose otherwise, and the client as Avro's own library for Java does.

    A field that the writer has under its name and under an alias takes the later one. Of two fields with one
    alias the last takes the writer's. Of two branches with one simple name the first is taken, whatever their
    full names are.
    """
    match kind_of(schema):
        case "union":
            names = [simple(each["name"]) for each in schema if kind_of(each) in NAMED]
            return len(set(names)) < len(names) or any(fastavro_differs(each, written) for each in schema)
        case "record":
            aliases = [set(each.get("aliases", ())) for each in schema["fields"]]
            names = [each["name"] for each in schema["fields"]]
            both = any(len(written & {name, *own}) > 1 for name, own in zip(names, aliases, strict=True))
            shared = len(set().union(*aliases)) < sum(map(len, aliases))
            return both or shared or any(fastavro_differs(each["type"], written) for each in schema["fields"])
        case "array":
            return fastavro_differs(schema["items"], written)
        case "map":
            return fastavro_differs(schema["values"], written)
        case _:
            return False


def field_names(schema: Any) -> set[str]:
    match kind_of(schema):
        case "union":
            return set().union(*map(field_names, schema))
        case "record":
            names = {each["name"] for each in schema["fields"]}
            return names.union(*(field_names(each["type"]) for each in schema["fields"]))
        case "array":
            return field_names(schema["items"])
        case "map":
            return field_names(schema["values"])
        case _:
            return set()
