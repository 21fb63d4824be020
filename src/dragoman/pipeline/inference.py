"""A contract proposed from messages that have none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dragoman.core.errors import ConfigurationError, DecodeError
from dragoman.core.loading import BROKERS, FORMATS, load, scheme_of
from dragoman.pipeline.slices import columns_of


def infer_schema(broker: str, channel: str, sample: int, schema_type: str = "JSON") -> str:
    """Look at up to ``sample`` JSON messages of a channel; the text of a schema that all of them fit."""
    documents = list(_documents(broker, channel, sample))
    if not documents:
        raise ConfigurationError("The channel has no messages to learn from.", channel=channel)
    json_format = load(FORMATS, "JSON")()
    text: str = json_format.infer(documents, _record_name(channel))
    if schema_type == "JSON":
        return text
    proposed: str = load(FORMATS, schema_type)().schema_of(json_format.record_class(json_format.parse(text)))
    return proposed


def _documents(broker: str, channel: str, sample: int) -> Iterator[Any]:
    log = load(BROKERS, scheme_of(broker))(broker).log()
    left = sample
    try:
        for partition, (start, end) in sorted(log.partitions(channel).items()):
            while start < end and left > 0:
                found = log.read(channel, partition, start, end)
                for offset, frame in zip(*_columns(found), strict=True):
                    if left > 0:
                        left -= 1
                        yield _parsed(frame, channel, partition, offset)
                if found.next_offset <= start:
                    break
                start = found.next_offset
    finally:
        log.close()


def _columns(found: Any) -> tuple[list[int], list[bytes | None]]:
    columns = columns_of(found)
    return columns.offsets.to_pylist(), columns.frames.to_pylist()


def _parsed(frame: bytes | None, channel: str, partition: int, offset: int) -> Any:
    try:
        return json.loads(frame or b"null")
    except ValueError as error:
        raise DecodeError(
            "The message is not JSON.",
            next="Only channels of plain JSON can be learnt from.",
            channel=channel,
            partition=partition,
            offset=offset,
        ) from error


def _record_name(channel: str) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in channel).split()
    return "".join(word[:1].upper() + word[1:] for word in words) or "Record"
