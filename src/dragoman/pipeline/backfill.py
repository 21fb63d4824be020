"""A channel's history replayed into a table or another channel, upcast to one version, and resumable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dragoman.core.broker import Broker
from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import Conflict
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.pipeline.beginning import begun
from dragoman.pipeline.events import Progress, read_events
from dragoman.pipeline.faults import spark_faults
from dragoman.pipeline.folders import folder_name, local
from dragoman.pipeline.installing import install
from dragoman.pipeline.options import RegistryAccess, located
from dragoman.pipeline.running import Flow, Pipeline
from dragoman.pipeline.schemas import schemas, version_number
from dragoman.pipeline.state import State
from dragoman.registry import connect
from dragoman.schema.naming import Naming


@dataclass(frozen=True)
class Backfill:
    """``start`` and ``end`` are offsets or times as the source takes them. The same name goes on."""

    spark: Any
    channel: str
    version: str = "latest"
    start: str = "earliest"
    end: str = "latest"
    name: str = "backfill"
    broker: str = field(default_factory=default_broker)
    registry: str = field(default_factory=default_registry)

    def to_table(self, folder: str, table_format: str = "delta", table: str = "") -> Progress:
        """Into a table of this name, or the channel's, exactly once.

        Raises ``Conflict`` for one that another pipeline keeps: its messages would be there twice.
        """
        options = () if self.end == "latest" else (("endingOffsets", self.end),)
        flow = Flow(self.channel, table, "", self.version, starting_offsets=self.start, options=options)
        pipeline = Pipeline(
            self.spark,
            [flow],
            folder,
            broker=self.broker,
            registry=self.registry,
            table_format=table_format,
            name=self.name,
        )
        for state, other, _ in Pipeline.flows_below(folder):
            if other.table_name == flow.table_name and state.home.name != pipeline.application(flow):
                raise Conflict(
                    "Another pipeline keeps this table: messages would be in it twice.",
                    code="pipeline.table",
                    next="Give a table of its own with --table, or another folder.",
                    table=flow.table_name,
                    pipeline=state.home.name,
                )
        with pipeline:
            pipeline.run(once=True)
            return read_events(pipeline.state(flow).events, pipeline.application(flow))

    def to_channel(self, target: str, state: Path) -> Progress:
        """Into another channel, at least once with stable ids; what cannot be read is kept as files."""
        folder = local(state, "state") / f"{folder_name(self.name, 'name')}-{self.channel}-{target}"
        install(self.spark)
        schemas(RegistryAccess(located(self.registry))).call(self._prepare(target))
        options = {
            "broker": self.broker,
            "registry": self.registry,
            "channel": self.channel,
            "version": self.version,
            "startingOffsets": self.start,
        }
        if self.end != "latest":
            options["endingOffsets"] = self.end
        with spark_faults():
            frame = self.spark.readStream.format("dragoman").options(**options).load()
        columns = [f"`{name}`" for name in frame.columns if name not in ("_meta", "_error", "_frame")]
        about = ("_meta.key AS _key", "_meta.schema_id IS NULL AS _deleted")
        counts = [0, 0]

        def publish(batch: Any, number: int) -> None:
            batch.persist()
            rejected = batch.where("_error IS NOT NULL").select("_meta", "_error", "_frame")
            rejected.write.mode("overwrite").parquet(str(folder / "quarantine" / f"batch={number}"))
            good = batch.where("_error IS NULL").selectExpr(*about, *columns)
            self._publish(good, target, number)
            counts[0] += good.count()
            counts[1] += rejected.count()
            batch.unpersist()

        with State(folder).held(), spark_faults():
            writer = (
                frame.writeStream.foreachBatch(publish)
                .option("checkpointLocation", str(folder / "checkpoint"))
                .trigger(availableNow=True)
            )
            query = begun(writer.start)
            query.awaitTermination()
        return Progress(self.name, query.lastProgress["batchId"] if query.lastProgress else -1,
                        sum(counts), counts[0], counts[1], 0.0, 0)  # fmt: skip

    async def _prepare(self, target: str) -> None:
        """The target gets the contract's version that rows are read as, and is made if it is missing."""
        registry = connect(self.registry)
        broker: Broker = load(BROKERS, scheme_of(self.broker))(self.broker)
        await broker.connect()
        try:
            contract = Naming.CHANNEL.for_value(self.channel, "")
            found = await registry.version(contract, version_number(self.version))
            await registry.register(Naming.CHANNEL.for_value(target, ""), found.schema)
            await broker.create(replace(await broker.describe(self.channel), name=target))
        finally:
            await broker.close()
            await registry.close()

    def _publish(self, good: Any, target: str, number: int) -> None:
        options = {
            "broker": self.broker,
            "registry": self.registry,
            "channel": target,
            "key": "_key",
            "deleted": "_deleted",
            "application": f"{self.name}-{self.channel}-{number}",
        }
        good.write.format("dragoman").mode("append").options(**options).save()
