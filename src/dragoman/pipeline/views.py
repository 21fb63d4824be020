"""Contracts as SQL tables: ``SELECT ... FROM dragoman.`loan-broker.request```."""

from __future__ import annotations

import logging
from typing import Any

from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError, SchemaError
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.pipeline.faults import spark_faults
from dragoman.pipeline.installing import install
from dragoman.pipeline.options import RegistryAccess, located
from dragoman.pipeline.schemas import schemas
from dragoman.schema.naming import channel_of

NAMESPACE = "dragoman"
NAMESPACE_SETTING = "spark.sql.globalTempDatabase"
"""Spark's own catalog takes no dots and dashes in names; views that live as long as the session do."""
_log = logging.getLogger(__name__)


def catalog(spark: Any, broker: str = "", registry: str = "", prefix: str = "") -> list[str]:
    """Make a view of every channel that has a contract; the names to use in SQL.

    The namespace is ``dragoman`` in a session with ``spark.sql.globalTempDatabase=dragoman``, which is what
    ``dragoman.pipeline.session()`` starts, else Spark's ``global_temp``. A view has the columns of the
    contract's version, and the messages, that were current when it was made: make it again to see more.
    A contract that has no columns, such as one of a type that contains itself, is told and left out.
    """
    install(spark)
    broker, registry = broker or default_broker(), registry or default_registry()
    namespace = spark.conf.get(NAMESPACE_SETTING, "global_temp")
    names: list[str] = []
    for channel in _channels(broker, registry, prefix):
        source = spark.read.format("dragoman").options(broker=broker, registry=registry, channel=channel)
        try:
            with spark_faults():
                source.load().createOrReplaceGlobalTempView(f"`{channel}`")
        except (ConfigurationError, SchemaError) as error:
            _log.warning("There is no view of %s: %s", channel, error.what)
        else:
            names.append(f"{namespace}.`{channel}`")
    return names


def _channels(broker: str, registry: str, prefix: str) -> list[str]:
    """Channels of the broker for whose messages the registry has a contract."""
    contracts = schemas(RegistryAccess(located(registry))).contracts(prefix)
    log = load(BROKERS, scheme_of(broker))(broker).log()
    try:
        there = set(log.channels())
    finally:
        log.close()
    return sorted({channel_of(name) for name in contracts if name.endswith("-value")} & there)
