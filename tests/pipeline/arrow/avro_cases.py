"""Random Avro schemas, data for them, changes to them, and what an independent reader makes of it."""

from __future__ import annotations

import io
import json
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
from hypothesis import strategies as st

from dragoman.pipeline.arrow import SchemaText
from dragoman.schema.framing import frame

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROS = {"millis": 1000, "micros": 1}
_YEAR_9999 = 253_402_300_799
TEXT = st.text(max_size=12)
NUMBERS = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
}


def schema_text(schema: Any) -> SchemaText:
    return SchemaText("AVRO", json.dumps(schema))


def _named(draw: Any, names: list[int]) -> str:
    names[0] += 1
    return f"ns.N{names[0]}"


@st.composite
def types(draw: Any, names: list[int], depth: int) -> Any:
    """One Avro type. ``names`` counts the names given out."""
    plain = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
    logical = [
        {"type": "int", "logicalType": "date"},
        {"type": "int", "logicalType": "time-millis"},
        {"type": "long", "logicalType": "time-micros"},
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "timestamp-micros"},
        {"type": "long", "logicalType": "timestamp-nanos"},
        {"type": "long", "logicalType": "local-timestamp-millis"},
        {"type": "long", "logicalType": "local-timestamp-micros"},
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
        {"type": "string", "logicalType": "uuid"},
    ]
    kinds = ["plain", "logical", "enum", "fixed", "optional"]
    if depth:
        kinds += ["record", "array", "map", "union"]
    match draw(st.sampled_from(kinds)):
        case "plain":
            return draw(st.sampled_from(plain))
        case "logical":
            return draw(st.sampled_from(logical))
        case "enum":
            count = draw(st.integers(1, 4))
            return {"type": "enum", "name": _named(draw, names), "symbols": [f"S{i}" for i in range(count)]}
        case "fixed":
            return draw(_fixed(names))
        case "optional":
            inner = draw(types(names, depth - 1 if depth else 0).filter(_not_null_nor_union))
            return draw(st.permutations(["null", inner]))
        case "record":
            return draw(records(names, depth - 1))
        case "array":
            return {"type": "array", "items": draw(types(names, depth - 1))}
        case "map":
            return {"type": "map", "values": draw(types(names, depth - 1))}
        case _:
            branches = draw(st.lists(types(names, depth - 1).filter(_no_union), min_size=2, max_size=4))
            return _distinct(branches)


def _not_null_nor_union(schema: Any) -> bool:
    return schema != "null" and not isinstance(schema, list)


def _no_union(schema: Any) -> bool:
    return not isinstance(schema, list)


def _kind(schema: Any) -> str:
    return schema if isinstance(schema, str) else schema["type"]


def _distinct(branches: list[Any]) -> list[Any]:
    found: dict[str, Any] = {}
    for branch in branches:
        kind = _kind(branch)
        found.setdefault(branch["name"] if kind in ("record", "enum", "fixed") else kind, branch)
    return list(found.values())


@st.composite
def _fixed(draw: Any, names: list[int]) -> Any:
    logical, size = draw(
        st.sampled_from(
            [(None, 3), (None, 4), (None, 12), (None, 17), ("uuid", 16), ("duration", 12), ("decimal", 8)]
        )
    )
    schema: dict[str, Any] = {"type": "fixed", "name": _named(draw, names), "size": size}
    if logical:
        schema["logicalType"] = logical
    return schema | ({"precision": 15, "scale": 4} if logical == "decimal" else {})


@st.composite
def records(draw: Any, names: list[int], depth: int, least: int = 0) -> Any:
    name = _named(draw, names)
    count = draw(st.integers(least, 4))
    fields = [{"name": f"f{i}", "type": draw(types(names, depth))} for i in range(count)]
    return {"type": "record", "name": name, "fields": fields}


def roots() -> Any:
    return st.deferred(lambda: records([0], 2, least=1))


def values(schema: Any) -> Any:
    """Data as it lies in the bytes: numbers for times, bytes for decimals."""
    if isinstance(schema, list):
        return st.one_of([st.tuples(st.just(index), values(each)) for index, each in enumerate(schema)])
    kind, logical = _kind(schema), schema.get("logicalType") if isinstance(schema, dict) else None
    match kind, logical:
        case "record", _:
            return st.fixed_dictionaries({each["name"]: values(each["type"]) for each in schema["fields"]})
        case "array", _:
            return st.lists(values(schema["items"]), max_size=3)
        case "map", _:
            return st.dictionaries(TEXT, values(schema["values"]), max_size=3)
        case "enum", _:
            return st.sampled_from(schema["symbols"])
        case _, "decimal":
            top = 10 ** schema["precision"] - 1
            return st.integers(-top, top).map(lambda number: _decimal_bytes(number, schema.get("size")))
        case "fixed", _:
            return st.binary(min_size=schema["size"], max_size=schema["size"])
        case _, "uuid":
            return st.uuids().map(str)
        case _, "date":
            return st.integers(-719_162, 2_932_896)
        case _, "time-millis":
            return st.integers(0, 86_400_000 - 1)
        case _, "time-micros":
            return st.integers(0, 86_400_000_000 - 1)
        case _, str() if logical.endswith(("millis", "micros")):
            unit = {"millis": 10**3, "micros": 10**6}[logical.rpartition("-")[2]]
            return st.integers(-62_135_596_800 * unit, _YEAR_9999 * unit)
        case "null", _:
            return st.none()
        case "boolean", _:
            return st.booleans()
        case "string", _:
            return TEXT
        case "bytes", _:
            return st.binary(max_size=12)
        case _:
            return NUMBERS[kind]


def _decimal_bytes(number: int, size: int | None) -> bytes:
    return number.to_bytes(size or (number.bit_length() + 8) // 8, "big", signed=True)


def without_logical(schema: Any) -> Any:
    """The same bytes, with nothing for the independent reader to interpret."""
    if isinstance(schema, list):
        return [without_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    left = {key: value for key, value in schema.items() if key not in ("logicalType", "precision", "scale")}
    for key in ("items", "values"):
        if key in left:
            left[key] = without_logical(left[key])
    if "fields" in left:
        left["fields"] = [each | {"type": without_logical(each["type"])} for each in left["fields"]]
    return left


class Payload(bytearray):
    """``block_end`` is how the zero that ends a list of blocks is written."""

    block_end = b"\x00"


def written(schema: Any, value: Any, schema_id: int, block_end: bytes = Payload.block_end) -> bytes:
    out = Payload()
    out.block_end = block_end
    _write(schema, value, out)
    return frame(schema_id, bytes(out))


def _write(schema: Any, value: Any, out: Payload) -> None:
    """A third writer, since the independent one cannot be told which branch of a union is meant."""
    if isinstance(schema, list):
        _long(value[0], out)
        return _write(schema[value[0]], value[1], out)
    match _kind(schema):
        case "null":
            pass
        case "boolean":
            out.append(value)
        case "int" | "long":
            _long(value, out)
        case "float":
            out += struct.pack("<f", value)
        case "double":
            out += struct.pack("<d", value)
        case "bytes" | "string":
            raw = value.encode() if isinstance(value, str) else value
            _long(len(raw), out)
            out += raw
        case "fixed":
            out += value
        case "enum":
            _long(schema["symbols"].index(value), out)
        case "record":
            for each in schema["fields"]:
                _write(each["type"], value[each["name"]], out)
        case "array":
            _block(list(value), lambda each: _write(schema["items"], each, out), out)
        case "map":
            _block(list(value.items()), lambda each: _entry(schema, each, out), out)
    return None


def _entry(schema: Any, entry: tuple[str, Any], out: Payload) -> None:
    _write("string", entry[0], out)
    _write(schema["values"], entry[1], out)


def _block(cells: list[Any], write: Any, out: Payload) -> None:
    if cells:
        _long(len(cells), out)
        for each in cells:
            write(each)
    out += out.block_end


def _long(value: int, out: Payload) -> None:
    rest = (value << 1) ^ (value >> 63)
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)


def read_by_fastavro(writer: Any, reader: Any, payload: bytes) -> Any:
    """Raises what it raises; checks that nothing is left over."""
    stream = io.BytesIO(payload)
    plain = [fastavro.parse_schema(without_logical(each)) for each in (writer, reader)]
    value = fastavro.schemaless_reader(stream, *plain)
    if stream.read(1):
        raise ValueError("bytes left over")
    return value


def same(schema: Any, raw: Any, ours: Any) -> bool:
    """Whether our cell is what the independent reader's raw value means."""
    if isinstance(schema, list):
        return _same_union(schema, raw, ours)
    kind, logical = _kind(schema), schema.get("logicalType") if isinstance(schema, dict) else None
    match kind, logical:
        case "record", _:
            return all(same(each["type"], raw[each["name"]], ours[each["name"]]) for each in schema["fields"])
        case "array", _:
            pairs = zip(raw, ours, strict=True)
            return len(raw) == len(ours) and all(same(schema["items"], a, b) for a, b in pairs)
        case "map", _:
            cells = dict(ours)
            return raw.keys() == cells.keys() and all(same(schema["values"], raw[k], cells[k]) for k in raw)
        case "float", _:
            return _equal_floats(_float32(raw), ours)
        case "double", _:
            return _equal_floats(float(raw), ours)
        case "string", _:
            return bool((raw.decode() if isinstance(raw, bytes) else raw) == ours)
        case "bytes", None:
            return bool((raw.encode() if isinstance(raw, str) else raw) == ours)
        case _:
            return bool(_meaning(schema, logical, raw) == ours)


def _equal_floats(first: float, second: float) -> bool:
    return first == second or (first != first and second != second)


def _float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _same_union(schema: list[Any], raw: Any, ours: Any) -> bool:
    branches = [each for each in schema if each != "null"]
    if ours is None:
        return raw is None
    if len(branches) == 1 and len(schema) == 2:
        return same(branches[0], raw, ours)
    members = [(each, cell) for each, cell in zip(branches, ours.values(), strict=True) if cell is not None]
    return len(members) == 1 and _matches(members[0][0], raw) and same(members[0][0], raw, members[0][1])


def _matches(branch: Any, raw: Any) -> bool:
    expected: dict[str, Any] = {
        "record": dict,
        "map": dict,
        "array": list,
        "boolean": bool,
        "fixed": bytes,
        "bytes": bytes | str,
        "string": str | bytes,
        "enum": str,
    }
    return isinstance(raw, expected.get(_kind(branch), int | float))


def _meaning(schema: Any, logical: str | None, raw: Any) -> Any:
    match logical:
        case "date":
            return date(1970, 1, 1) + timedelta(days=raw)
        case "time-millis" | "time-micros":
            micros = raw * _MICROS[logical.rpartition("-")[2]]
            return (datetime.min + timedelta(microseconds=micros)).time() if micros else time()
        case "timestamp-millis" | "timestamp-micros":
            return EPOCH + timedelta(microseconds=raw * _MICROS[logical.rpartition("-")[2]])
        case "local-timestamp-millis" | "local-timestamp-micros":
            moment = EPOCH + timedelta(microseconds=raw * _MICROS[logical.rpartition("-")[2]])
            return moment.replace(tzinfo=None)
        case "decimal":
            return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-schema["scale"])
        case "uuid":
            return str(UUID(bytes=raw)) if isinstance(raw, bytes) else raw
        case "duration":
            return dict(zip(("months", "days", "milliseconds"), struct.unpack("<3I", raw), strict=True))
        case _:
            return raw
