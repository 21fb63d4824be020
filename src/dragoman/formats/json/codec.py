"""Compiled encoding and decoding of JSON payloads.

A payload is JSON text in UTF-8. Whatever is written was valid for the writer's schema, whatever is read is
valid for the reader's. Of a key written twice the last one counts. ``NaN`` and the infinities are not JSON,
and are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import msgspec

from dragoman.core.errors import ConstraintViolated, DecodeError, EncodeError, IncompatibleSchema
from dragoman.core.format import Codec
from dragoman.formats.json.compare.disjoint import disjoint
from dragoman.formats.json.compare.judge import Side
from dragoman.formats.json.defaults import Plan, fill
from dragoman.formats.json.failure import fail
from dragoman.formats.json.model import Model
from dragoman.formats.json.parsed import JsonSchema
from dragoman.formats.json.records.alignment import left_out
from dragoman.formats.json.records.decoding import decoder_of
from dragoman.formats.json.records.encoding import encoder_of
from dragoman.formats.json.records.misfit import Misfit, Violation
from dragoman.formats.json.typed import typed_throughout
from dragoman.schema.records import describe

_dump = msgspec.json.Encoder(decimal_format="number").encode
_load = msgspec.json.Decoder().decode


def codec(writer: JsonSchema, reader: JsonSchema | None, cls: type | None) -> Codec:
    """With a reader its defaults are filled in. Raises ``IncompatibleSchema`` if no document can fit both."""
    if reader is not None and reader is not writer:
        _refuse_strangers(reader, writer)
    encode = _encode(writer)
    decode = _decode(writer.validator) if reader is None else _decode_as(reader)
    if cls is None:
        return Codec(encode, decode)
    described = describe(cls)
    convert = encoder_of(described, left_out(Model(writer.linked), described))
    return Codec(_encode_record(convert, encode), _decode_record(decoder_of(described), decode))


def _refuse_strangers(reader: JsonSchema, writer: JsonSchema) -> None:
    """Documents are validated one by one, so only schemas that share none of them are refused here."""
    models = Model(reader.linked), Model(writer.linked)
    if disjoint(Side(models[0], models[0].root), Side(models[1], models[1].root)):
        raise IncompatibleSchema(
            "No document of the writer's schema fits the reader's schema.",
            next="Compare the two with `dragoman registry check`.",
            reader=reader.name or None,
            writer=writer.name or None,
        )


def _encode(writer: JsonSchema) -> Callable[[Any], bytes]:
    validator, valid = writer.validator, writer.validator.is_valid
    vague = not typed_throughout(Model(writer.linked))

    def encode(value: Any) -> bytes:
        try:
            # Dumped first: it refuses depth that the validator's stack could not take.
            payload = _dump(value)
            fits = valid(value)
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            raise EncodeError(f"The value is not JSON: {_words(error)}.") from None
        if not fits:
            fail(validator, value, EncodeError)
        if vague and b"null" in payload and _has_nan(value):
            raise EncodeError("NaN and infinite numbers are not JSON.", next="Send null, or leave them out.")
        return payload

    return encode


def _parsed(payload: bytes) -> Any:
    try:
        return _load(payload)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise DecodeError(
            f"The payload is not JSON: {_words(error)}.", code="message.decode.malformed"
        ) from None


def _decode(validator: jsonschema_rs.Validator) -> Callable[[bytes], Any]:
    valid = validator.is_valid

    def decode(payload: bytes) -> Any:
        value = _parsed(payload)
        if not valid(value):
            fail(validator, value, DecodeError)
        return value

    return decode


def _decode_as(reader: JsonSchema) -> Callable[[bytes], Any]:
    if reader.defaults is None:
        return _decode(reader.validator)
    return _decode_filling(reader.validator, reader.defaults)


def _decode_filling(validator: jsonschema_rs.Validator, plan: Plan) -> Callable[[bytes], Any]:
    """Required properties are filled in before validation, the others after it: these cannot help."""
    valid = validator.is_valid

    def decode(payload: bytes) -> Any:
        value = _parsed(payload)
        if not valid(value):
            fill(plan, value, optional=False)
            if not valid(value):
                fail(validator, value, DecodeError)
        fill(plan, value, optional=True)
        return value

    return decode


def _encode_record(convert: Callable[[Any], Any], encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def encode_record(instance: Any) -> bytes:
        try:
            value = convert(instance)
        except Misfit as error:
            kind = ConstraintViolated if isinstance(error, Violation) else EncodeError
            raise kind(str(error), field=error.field) from None
        except RecursionError:
            raise EncodeError("The record is nested too deep.") from None
        except Exception as error:
            raise EncodeError(f"The record cannot be written: {error}.") from error
        return encode(value)

    return encode_record


def _decode_record(convert: Callable[[Any], Any], decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def decode_record(payload: bytes) -> Any:
        value = decode(payload)
        try:
            return convert(value)
        except Misfit as error:
            kind = ConstraintViolated if isinstance(error, Violation) else DecodeError
            raise kind(str(error), field=error.field) from None
        except RecursionError:
            raise DecodeError("The payload is nested too deep.") from None
        except Exception as error:
            raise DecodeError(f"The payload does not fit the record: {error}.") from error

    return decode_record


def _has_nan(value: Any) -> bool:
    """``null`` was written: was it ``None``, or a number that JSON cannot write?"""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, float):
            if not math.isfinite(each):
                return True
        elif isinstance(each, dict):
            pending += each.values()
        elif isinstance(each, list | tuple):
            pending += each
    return False


def _words(error: Exception) -> str:
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error).rstrip(".")
