"""Contracts as SQL tables: ``SELECT ... FROM dragoman.`loan-broker.request```."""

from __future__ import annotations

import asyncio
from typing import Any

from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.pipeline.faults import spark_faults
from dragoman.pipeline.installing import install
from dragoman.registry import connect
from dragoman.schema.naming import channel_of

NAMESPACE = "dragoman"
NAMESPACE_SETTING = "spark.sql.globalTempDatabase"
"""Spark's own catalog takes no dots and dashes in names; views that live as long as the session do."""


def catalog(spark: Any, broker: str = "", registry: str = "", prefix: str = "") -> list[str]:
    """Make a view of every channel that has a contract; the names to use in SQL.

    The namespace is ``dragoman`` in a session with ``spark.sql.globalTempDatabase=dragoman``, which is what
    ``dragoman.pipeline.session()`` starts, else Spark's ``global_temp``. A view has the columns of the
    contract's version, and the messages, that were current when it was made: make it again to see more.
    """
    install(spark)
    broker, registry = broker or default_broker(), registry or default_registry()
    namespace = spark.conf.get(NAMESPACE_SETTING, "global_temp")
    names: list[str] = []
    for channel in _channels(broker, registry, prefix):
        source = spark.read.format("dragoman").options(broker=broker, registry=registry, channel=channel)
        with spark_faults():
            source.load().createOrReplaceGlobalTempView(f"`{channel}`")
        names.append(f"{namespace}.`{channel}`")
    return names


def _channels(broker: str, registry: str, prefix: str) -> list[str]:
    """Channels of the broker for whose messages the registry has a contract."""

    async def contracts() -> list[str]:
        connected = connect(registry)
        try:
            return [name for name in await connected.contracts(prefix) if name.endswith("-value")]
        finally:
            await connected.close()

    log = load(BROKERS, scheme_of(broker))(broker).log()
    try:
        there = set(log.channels())
    finally:
        log.close()
    return sorted({channel_of(name) for name in asyncio.run(contracts())} & there)
