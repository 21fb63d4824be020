"""DataFrames published as messages under a contract: checked on the driver, encoded and sent by workers.

Exactly once where the broker has transactions: a task's messages are sent in one, with a mark by which the
task knows, when Spark tries it again, that it is done. Elsewhere at least once: a task that is tried again
sends again. Each message carries a stable id in the header ``message-id``, made of application, batch, task
and row, by which a receiver can tell the repetition.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from dragoman.core.broker import Broker
from dragoman.core.errors import ConfigurationError, EncodeError, NotFound
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.core.message import Message
from dragoman.core.schema import Schema
from dragoman.pipeline.arrow import Encoder, SchemaText
from dragoman.pipeline.arrow.rejection import error_column
from dragoman.pipeline.faults import across_spark
from dragoman.pipeline.folders import local
from dragoman.pipeline.options import REGISTRY, RegistryAccess, snake
from dragoman.pipeline.outlet import AtLeastOnce, Attempt, Once, this_attempt
from dragoman.pipeline.proposal import avro_schema_of
from dragoman.pipeline.refused import refused_rows, refused_schema
from dragoman.pipeline.schemas import schemas
from dragoman.pipeline.tables import TABLE_FORMATS, DataFile, open_table
from dragoman.pipeline.tables.writing import FileWriter, Place, place_in
from dragoman.pipeline.types import arrow_schema
from dragoman.schema.naming import Naming

MESSAGE_ID = "message-id"
_CHOICES: dict[str, tuple[str, ...]] = {
    "application": (),
    "autoRegister": ("true", "false"),
    "channel": (),
    "contract": (),
    "deleted": (),
    "key": (),
    "onInvalid": ("fail", "quarantine"),
    "quarantine": (),
    "tableFormat": TABLE_FORMATS,
    "version": (),
}
"""The options of their own that writers have, and what they may be if that is not anything."""


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """All options of ``write.format("dragoman")``.

    ``quarantine`` is a folder for rows that are not sent. ``deleted`` names a column that is true for rows
    that are sent without payload.
    """

    channel: str
    broker: str
    registry: RegistryAccess
    contract: str
    version: str = "latest"
    key: str = ""
    deleted: str = ""
    auto_register: bool = False
    on_invalid: str = "fail"
    quarantine: str = ""
    table_format: str = "delta"
    application: str = ""


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """What a worker needs: made by the driver once everything fits. A query needs no ``application``."""

    options: PublishOptions
    schema_id: int
    schema: SchemaText
    payload: tuple[str, ...]
    refused: Place | None
    application: str


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    origin: str
    messages: int
    refused: tuple[DataFile, ...]


def plan_publishing(options: PublishOptions, schema: Any) -> PublishPlan:
    """Check a Spark schema against the contract. Raises ``EncodeError`` with everything that does not fit."""
    columns = arrow_schema(schema)
    for name, column in (("key", options.key), ("deleted", options.deleted)):
        if column and column not in columns.names:
            raise ConfigurationError(
                f"There is no column {column!r}, which is to be {name}.",
                next=f"Columns: {', '.join(columns.names)}.",
            )
    if options.deleted and not pa.types.is_boolean(pa.struct(columns).field(options.deleted).type):
        raise ConfigurationError(
            f"The column {options.deleted!r} is not a boolean.", next="It has to tell which rows are deleted."
        )
    sent = pa.schema([field for field in columns if field.name != options.deleted])
    schema_id, text = _contract(options, sent)
    payload = _payload(Encoder(text, schema_id), sent, options.key)
    refused = _quarantine(options, columns)
    return PublishPlan(options, schema_id, text, tuple(payload.names), refused, options.application)


def _contract(options: PublishOptions, columns: Any) -> tuple[int, SchemaText]:
    known = schemas(options.registry)
    try:
        reader = known.reader(options.contract, options.version)
    except NotFound:
        if not options.auto_register:
            raise
        without_key = pa.schema([field for field in columns if field.name != options.key])
        schema = Schema("AVRO", avro_schema_of(without_key if options.key else columns, options.channel))
        registered = known.register(options.contract, schema)
        return registered, known.text(registered)
    return known.schema_id(options.contract, reader.version), reader.schema


def _payload(encoder: Encoder, columns: Any, key: str) -> Any:
    """The columns that become the message: all, or all but the key where the contract has no such field."""
    problems = encoder.problems(columns)
    without_key = pa.schema([field for field in columns if field.name != key])
    if problems and key and not encoder.problems(without_key):
        return without_key
    encoder.check(columns)
    return columns


def _quarantine(options: PublishOptions, columns: Any) -> Place | None:
    if options.on_invalid != "quarantine":
        return None
    table = open_table(options.table_format, options.quarantine, _table_name(options))
    return place_in(table, table.prepare(refused_schema(columns), ()))


def _table_name(options: PublishOptions) -> str:
    return f"{''.join(c if c.isalnum() else '_' for c in options.channel)}_refused"


class _Publishing:
    """What batch and stream writers share."""

    def __init__(self, plan: PublishPlan) -> None:
        self.plan = plan

    @across_spark()
    def write(self, iterator: Iterator[Any]) -> Sent:
        """On a worker: encode and send. Nothing of a batch is sent while one of its rows is refused."""
        attempt = this_attempt(self.plan.application, self.plan.options.channel)
        return asyncio.run(self._send(iterator, attempt))

    async def _send(self, iterator: Iterator[Any], attempt: Attempt) -> Sent:
        encoder = Encoder(self.plan.schema, self.plan.schema_id)
        broker: Broker = load(BROKERS, scheme_of(self.plan.options.broker))(self.plan.options.broker)
        await broker.connect()
        refused = FileWriter(self.plan.refused) if self.plan.refused is not None else None
        outlet = Once(broker, attempt) if broker.capabilities.transactions else AtLeastOnce(broker)
        numbers = count()
        try:
            for batch in iterator:
                encoded = encoder.encode(batch.select(list(self.plan.payload)).to_struct_array())
                deleted = _deleted(batch, self.plan.options.deleted)
                wrong = {row: why for row, why in encoded.rejections.items() if not deleted[row]}
                if wrong:
                    _refuse(batch, error_column(batch.num_rows, wrong), refused, attempt.origin)
                rows = zip(encoded.frames.to_pylist(), deleted, numbers, strict=False)
                await outlet.take(self._messages(batch, rows, attempt.prefix))
            sent = await outlet.finish()
        finally:
            await broker.close()
        return Sent(attempt.origin, sent, refused.finish() if refused is not None else ())

    def _messages(self, batch: Any, rows: Iterable[tuple[Any, bool, int]], prefix: str) -> list[Message]:
        """Of each row its frame, whether it is deleted, and its number; refused rows have neither."""
        channel = self.plan.options.channel
        keys = _keys(batch, self.plan.options.key)
        return [
            Message(channel, None if deleted else frame, key, ((MESSAGE_ID, f"{prefix}/{number}".encode()),))
            for key, (frame, deleted, number) in zip(keys, rows, strict=True)
            if deleted or frame is not None
        ]

    def _keep_refused(self, messages: Sequence[Any], batch: int, job: str = "") -> None:
        """Once for each batch of what the messages come from, or for each job of it."""
        options = self.plan.options
        files = [file for message in messages if message is not None for file in message.refused]
        if not files:
            return
        application = next(message.origin for message in messages if message is not None) + job
        table = open_table(options.table_format, options.quarantine, _table_name(options))
        if table.last_batch(application) < batch:
            table.append(files, application, batch)


class PublishWriter(_Publishing, DataSourceArrowWriter):
    def __init__(self, plan: PublishPlan) -> None:
        super().__init__(replace(plan, application=plan.application or f"publish-{uuid.uuid4().hex}"))

    @across_spark()
    def commit(self, messages: list[Any]) -> None:
        """One that is run again under the same name refuses rows of its own."""
        self._keep_refused(messages, 0, f"-{uuid.uuid4().hex}")

    def abort(self, messages: list[Any]) -> None:
        """What was sent is sent."""


class PublishStreamWriter(_Publishing, DataSourceStreamArrowWriter):
    @across_spark()
    def commit(self, messages: list[Any], batchId: int) -> None:
        self._keep_refused(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """What was sent is sent; the batch is tried again with the same ids."""


def _refuse(batch: Any, errors: Any, refused: FileWriter | None, origin: str) -> None:
    if refused is None:
        first = next(error for error in errors.to_pylist() if error is not None)
        raise EncodeError(
            f"A row does not fit the contract: {first['reason']}",
            code=first["code"],
            next="Mend the rows, or set option('onInvalid', 'quarantine').",
            path=first["path"],
        )
    refused.write(refused_rows(batch, errors, origin))


def _keys(batch: Any, column: str) -> list[bytes | None]:
    if not column:
        return [None] * batch.num_rows
    values = batch.column(batch.schema.get_field_index(column)).to_pylist()
    return [value if value is None or isinstance(value, bytes) else str(value).encode() for value in values]


def _deleted(batch: Any, column: str) -> list[bool]:
    if not column:
        return [False] * batch.num_rows
    found: list[bool] = batch.column(batch.schema.get_field_index(column)).fill_null(False).to_pylist()
    return found


def parse_publish_options(given: Mapping[str, str], registry: RegistryAccess, broker: str) -> PublishOptions:
    """Raises ``ConfigurationError`` for an unknown name or an impossible value, with what is allowed."""
    names = {name.lower(): name for name in _CHOICES}
    values: dict[str, Any] = {}
    for given_name, value in given.items():
        name = names.get(given_name.lower())
        if name is None:
            raise ConfigurationError(
                f"Publishing has no option {given_name}.",
                code="configuration.option",
                next=f"Options are: {', '.join(sorted([*_CHOICES, 'broker', *REGISTRY]))}.",
            )
        if _CHOICES[name] and value not in _CHOICES[name]:
            raise ConfigurationError(
                f"{name} cannot be {value!r}.",
                code="configuration.option",
                next=f"Allowed: {', '.join(_CHOICES[name])}.",
            )
        values[snake(name)] = value
    if not values.get("channel"):
        raise ConfigurationError("Publishing needs a channel.", next="Set option('channel', 'name').")
    if (values.get("on_invalid") == "quarantine") != bool(values.get("quarantine")):
        raise ConfigurationError(
            "Rows that are not sent need a place, and the place needs them.",
            code="configuration.option",
            next="Set both option('onInvalid', 'quarantine') and option('quarantine', 'folder').",
        )
    local(values.get("quarantine", ""), "quarantine")
    values["auto_register"] = values.get("auto_register") == "true"
    values.setdefault("contract", Naming.CHANNEL.for_value(values["channel"], ""))
    return PublishOptions(broker=broker, registry=registry, **values)
