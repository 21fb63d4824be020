"""Stop a stream at the first message of a contract version that is newer than the one it reads as.

A stream's columns are those of the version that was the latest when it started. Fields that a later version
adds have no column: a stream that went on would drop them, and never read these messages again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from dragoman.core.errors import ConfigurationError, Conflict, NotFound, SchemaError
from dragoman.pipeline.arrow import Mapping, SchemaText
from dragoman.pipeline.arrow.codec_rows import parsed
from dragoman.pipeline.arrow.decoder import struct_type
from dragoman.pipeline.faults import across_spark
from dragoman.pipeline.plan import ReadPlan
from dragoman.pipeline.schemas import ReaderVersion, schemas


def refuse_newer(plan: ReadPlan, channel: str, schema_ids: Iterable[int]) -> None:
    """Raise if one of a channel's messages needs a later reader than the plan's.

    A writer's version that is not later than the reader's needs none: a field that the reader lacks was
    removed. A plan for a version that was chosen by number is left alone. After a start with the latest
    version no writer has a later one, so the same message cannot stop the stream again.
    """
    if plan.reader is None or plan.options.version != "latest":
        return
    contract = plan.contract_of(channel)
    own = dict(plan.versions).get(contract, 0)
    for schema_id in schema_ids:
        written = _version(plan, contract, schema_id)
        if written is None or written <= own or _means_the_same(plan, _text(plan, schema_id)):
            continue
        latest = _latest(plan, contract)
        if latest is None or latest.version <= own or _means_the_same(plan, latest.schema):
            continue
        read_as = f"version {own}" if own else f"{plan.reader.contract}, version {plan.reader.version}"
        raise across_spark(
            Conflict(
                f"The channel has messages of version {written} of its contract, and is read as {read_as}, "
                "which was the latest when the stream started.",
                code="pipeline.newer-version",
                next="Nothing of this batch was stored. Start the stream again with the same checkpoint: "
                f"it goes on with version {latest.version}.",
                channel=channel,
                contract=contract,
            )
        )


def _version(plan: ReadPlan, contract: str, schema_id: int) -> int | None:
    """The contract's version with this id; ``None`` also for an id that the registry does not know yet."""
    known = schemas(plan.options.registry)
    try:
        known.text(schema_id)
    except NotFound:
        return None
    return known.writer_version(contract, schema_id)


def _text(plan: ReadPlan, schema_id: int) -> SchemaText:
    return schemas(plan.options.registry).text(schema_id)


def _latest(plan: ReadPlan, contract: str) -> ReaderVersion | None:
    try:
        return schemas(plan.options.registry).reader(contract, "latest")
    except NotFound:
        return None


def _means_the_same(plan: ReadPlan, schema: SchemaText) -> bool:
    """Whether a reader of this schema would read nothing else than the plan's."""
    assert plan.reader is not None
    mapping = plan.options.mapping
    try:
        return _meaning(schema, mapping) == _meaning(plan.reader.schema, mapping)
    except (SchemaError, ConfigurationError):  # such as a type that contains itself, and did not before
        return False


@lru_cache(maxsize=256)
def _meaning(schema: SchemaText, mapping: Mapping) -> tuple[str, Any]:
    """What its bytes are, and the columns made of them: logical types are not seen in the bytes."""
    return parsed(schema).fingerprint, struct_type(schema, mapping)
