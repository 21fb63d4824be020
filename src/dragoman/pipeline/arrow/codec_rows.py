"""Columns through a format's own codec, message by message: exact, where no vectorised reader is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from dragoman.core.errors import ConfigurationError, DragomanError, MessageError
from dragoman.core.format import Codec, Format, ParsedSchema
from dragoman.core.loading import FORMATS, load
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.port import ColumnDecoder, ColumnEncoder, SchemaText, whole_type
from dragoman.pipeline.arrow.rejection import Malformed, Reason, Rejection
from dragoman.pipeline.arrow.shapes import Column, opaque_column
from dragoman.pipeline.arrow.variant import to_json, to_variant
from dragoman.schema.framing import HEADER_SIZE, header_of

UNFIT = (ValueError, TypeError, ArithmeticError, RecursionError)
"""What Python and Arrow raise for a value that a type cannot hold: half a surrogate pair, a huge number."""
_DOES_NOT_FIT = Rejection(Reason.RANGE, "A value is beyond what its column can hold.")
_CANNOT_BE_WRITTEN = Rejection(Reason.ENCODE_TYPE, "A value cannot be written as the contract's type.")
Shape = Callable[[Any], Any]
"""From a value to what Arrow takes for it, or back. Raises ``Malformed``."""


def parsed(schema: SchemaText) -> ParsedSchema:
    """The schema as its format sees it, with what it refers to."""
    format: Format = load(FORMATS, schema.type)()
    return format.parse(schema.text, {name: parsed(each) for name, each in schema.references})


def codec_of(writer: SchemaText, reader: SchemaText | None) -> Codec:
    format: Format = load(FORMATS, writer.type)()
    wanted = None if reader is None or reader == writer else parsed(reader)
    return format.codec(parsed(writer), wanted)


class CodecColumnDecoder:
    """Values of the codec, shaped for a struct type."""

    def __init__(self, codec: Codec, type: Any, shape: Shape) -> None:
        self._decode = codec.decode
        self._type = type
        self._shape = shape

    def decode(self, frames: Any) -> tuple[Any, dict[int, Rejection]]:
        rejections: dict[int, Rejection] = {}
        values: list[Any] = []
        for row, frame in enumerate(frames.to_pylist()):
            try:
                values.append(self._shape(self._decode(frame[HEADER_SIZE:])))
            except MessageError as error:
                rejections[row] = _rejection(error)
                values.append(None)
            except Malformed as found:
                rejections[row] = found.rejection
                values.append(None)
            except UNFIT:
                rejections[row] = _DOES_NOT_FIT
                values.append(None)
        return _fitted(values, self._type, rejections), rejections


class CodecColumnEncoder:
    """Rows of a struct type, given back the codec's form and written one by one."""

    def __init__(
        self, codec: Codec, schema_id: int, shape: Shape, problems: Callable[[Any], list[str]]
    ) -> None:
        self._encode = codec.encode
        self._header = header_of(schema_id)
        self._shape = shape
        self.problems = problems

    def encode(self, rows: Any) -> tuple[Any, dict[int, Rejection]]:
        rejections: dict[int, Rejection] = {}
        frames: list[bytes | None] = []
        for row, value in enumerate(rows.to_pylist()):
            try:
                frames.append(self._header + self._encode(self._shape(value)))
            except MessageError as error:
                rejections[row] = _rejection(error)
                frames.append(None)
            except Malformed as found:
                rejections[row] = found.rejection
                frames.append(None)
            except UNFIT:
                rejections[row] = _CANNOT_BE_WRITTEN
                frames.append(None)
        return pa.array(frames, pa.binary()), rejections


def _fitted(values: list[Any], type: Any, rejections: dict[int, Rejection]) -> Any:
    """The values as a column. Those that no column can hold are found one by one, and rejected."""
    try:
        return pa.array(values, type)
    except UNFIT:
        for row, value in enumerate(values):
            try:
                pa.scalar(value, type)
            except UNFIT:
                rejections[row], values[row] = _DOES_NOT_FIT, None
        return pa.array(values, type)


def _rejection(error: DragomanError) -> Rejection:
    place = error.where.get("field") or error.where.get("path") or error.where.get("pointer") or ""
    return Rejection(error.code if error.code != "message.decode" else Reason.TYPE, error.what, str(place))


class CodecColumns(ABC):
    """A column format over its format's codec: only the mapping of types is its own."""

    schema_type: str

    @abstractmethod
    def root(self, schema: SchemaText, mapping: Mapping) -> Column:
        """The message's own type, a struct."""

    def struct_type(self, reader: SchemaText, mapping: Mapping) -> Any:
        return self.root(reader, mapping).type

    def meaning(self, reader: SchemaText) -> object:
        """The codec checks no constraints that the fingerprint does not count."""
        return parsed(reader).fingerprint

    def decoder(self, writer: SchemaText, reader: SchemaText | None, mapping: Mapping) -> ColumnDecoder:
        codec = codec_of(writer, reader)
        if reader is None:
            form = to_variant if mapping.whole == "variant" else to_json
            return CodecColumnDecoder(codec, whole_type(mapping), lambda value: {"value": form(value)})
        column = self.root(reader, mapping)
        return CodecColumnDecoder(codec, column.type, column.inward)

    def encoder(self, writer: SchemaText, schema_id: int, mapping: Mapping) -> ColumnEncoder:
        column = self.root(writer, mapping)
        names = {each.name for each in column.type}

        def problems(type: Any) -> list[str]:
            return [f"{each.name}: not in the contract" for each in type if each.name not in names]

        return CodecColumnEncoder(codec_of(writer, None), schema_id, column.outward, problems)


def recursion_column(name: str, mapping: Mapping) -> Column:
    """What a type becomes where it contains itself. Raises ``ConfigurationError`` if that is refused."""
    if mapping.recursion == "refuse":
        raise ConfigurationError(
            f"The type {name} contains itself, a table's columns cannot.",
            code="configuration.recursive-type",
            next="Set the option recursion to variant or json to keep the inner value whole.",
        )
    return opaque_column(mapping.recursion)
