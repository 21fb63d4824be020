"""``format("dragoman")``: channels to read, and to publish to."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from dragoman.core.defaults import default_broker
from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.batch import WAIT_SECONDS, ChannelReader
from dragoman.pipeline.faults import across_spark
from dragoman.pipeline.options import located, parse_options, take_registry
from dragoman.pipeline.plan import ReadPlan, make_plan
from dragoman.pipeline.stream import ChannelStreamReader
from dragoman.pipeline.types import spark_schema


class DragomanSource(DataSource):
    """Channels as typed columns, and typed columns as messages.

    Spark makes one when ``load()`` is called, asks for the schema and sends the object along from there:
    so the contract's version is fixed once, by ``schema``, and is the same for all tasks.
    """

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._plan: ReadPlan | None = None

    @classmethod
    def name(cls) -> str:
        return "dragoman"

    @across_spark()
    def schema(self) -> Any:
        return spark_schema(self._planned().schema())

    @across_spark()
    def reader(self, schema: Any) -> ChannelReader:
        self._refuse_other(schema)
        return ChannelReader(self._planned(), schema)

    @across_spark()
    def streamReader(self, schema: Any) -> ChannelStreamReader:
        self._refuse_other(schema)
        return ChannelStreamReader(self._planned(), schema)

    @across_spark()
    def writer(self, schema: Any, overwrite: bool) -> Any:
        from dragoman.pipeline.publishing import PublishWriter

        return PublishWriter(self._publishing(schema, overwrite))

    @across_spark()
    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        from dragoman.pipeline.publishing import PublishStreamWriter

        return PublishStreamWriter(self._publishing(schema, overwrite))

    def _publishing(self, schema: Any, overwrite: bool) -> Any:
        from dragoman.pipeline.publishing import parse_publish_options, plan_publishing

        if overwrite:
            raise ConfigurationError("A channel cannot be overwritten.", next="Use mode('append').")
        given = {name.lower(): str(value) for name, value in dict(self.options).items()}
        registry = take_registry(given)
        broker = located(given.pop("broker", "") or default_broker())
        given.pop("checkpointlocation", "")  # which is Spark's own
        return plan_publishing(parse_publish_options(given, registry, broker), schema)

    def _planned(self) -> ReadPlan:
        if self._plan is None:
            options = parse_options(dict(self.options))
            seconds = WAIT_SECONDS if options.wait_seconds is None else options.wait_seconds
            self._plan = make_plan(options, seconds)
        return self._plan

    def _refuse_other(self, schema: Any) -> None:
        own = spark_schema(self._planned().schema())
        if schema.simpleString() != own.simpleString():
            raise ConfigurationError(
                "The source takes its columns from the contract.",
                next="Leave out schema(...), and select or cast afterwards.",
            )
