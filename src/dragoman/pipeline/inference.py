"""A contract proposed from messages that have none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from dragoman.client.history import Damaged, read_partition
from dragoman.core.errors import ConfigurationError, DecodeError
from dragoman.core.loading import BROKERS, FORMATS, load, scheme_of


def infer_schema(
    broker: str, channel: str, sample: int, schema_type: str = "JSON", damaged: Damaged | None = None
) -> str:
    """Look at up to ``sample`` JSON messages of a channel; the text of a schema that all of them fit.

    Messages that cannot be read any more are left out if ``damaged`` is given: it is called for each range.
    """
    documents = list(islice(_documents(broker, channel, damaged), sample))
    if not documents:
        raise ConfigurationError("The channel has no messages to learn from.", channel=channel)
    json_format = load(FORMATS, "JSON")()
    text: str = json_format.infer(documents, _record_name(channel))
    if schema_type == "JSON":
        return text
    proposed: str = load(FORMATS, schema_type)().schema_of(json_format.record_class(json_format.parse(text)))
    return proposed


def _documents(broker: str, channel: str, damaged: Damaged | None) -> Iterator[Any]:
    log = load(BROKERS, scheme_of(broker))(broker).log()
    try:
        for partition, (start, end) in sorted(log.partitions(channel).items()):
            for message in read_partition(log, channel, partition, {partition: start}, end, damaged):
                yield _parsed(message.payload, channel, partition, message.offset)
    finally:
        log.close()


def _parsed(frame: bytes | None, channel: str, partition: int, offset: int | None) -> Any:
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
