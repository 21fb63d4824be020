"""A pipeline of many channels, written down in TOML.

to = "tables"
table_format = "delta"

[[flow]]
channel = "loan-broker.request"
partition_by = ["country"]
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.folders import folder_name, local
from dragoman.pipeline.running import Flow, Pipeline


@dataclass(frozen=True, slots=True)
class Settings:
    """The file's first level; ``flow`` is its list of tables."""

    to: str
    flows: tuple[Flow, ...]
    table_format: str = "delta"
    name: str = "pipeline"
    broker: str = ""
    registry: str = ""
    checkpoint: str = ""

    def __post_init__(self) -> None:
        """Before Spark is started, which takes a while."""
        local(self.to, "to")
        local(self.checkpoint, "checkpoint")
        folder_name(self.name, "name")
        for flow in self.flows:
            folder_name(flow.table_name, "table")

    def pipeline(self, spark: Any) -> Pipeline:
        return Pipeline(
            spark,
            self.flows,
            self.to,
            broker=self.broker or default_broker(),
            registry=self.registry or default_registry(),
            table_format=self.table_format,
            name=self.name,
            checkpoint=self.checkpoint,
        )


def read_settings(path: Path) -> Settings:
    """Raises ``ConfigurationError`` with the place for anything that is not understood."""
    try:
        stored = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"The file cannot be read: {error.strerror}.", file=path) from error
    except ValueError as error:
        raise ConfigurationError(f"The file is not TOML: {error}.", file=path) from error
    flows = stored.pop("flow", [])
    if not isinstance(flows, list) or not flows or not all(isinstance(each, dict) for each in flows):
        raise ConfigurationError("There is no [[flow]].", file=path, next="Add one for each table.")
    read = tuple(_flow(flow, path, number) for number, flow in enumerate(flows, 1))
    _check(stored, Settings, path, "the file", without={"flows"})
    return Settings(flows=read, **stored)


def _flow(stored: dict[str, Any], path: Path, number: int) -> Flow:
    _check(stored, Flow, path, f"flow {number}", without=set())
    lists = {name: tuple(value) for name, value in stored.items() if isinstance(value, list)}
    if "options" in stored:
        lists["options"] = tuple((name, str(value)) for name, value in stored["options"].items())
    return Flow(**{**stored, **lists})


_KINDS: dict[str, type] = {
    "merge_by": list,
    "partition_by": list,
    "options": dict,
    "max_rows_per_trigger": int,
    "compact_every": int,
}


def _check(stored: dict[str, Any], kind: type, path: Path, place: str, *, without: set[str]) -> None:
    allowed = [field.name for field in fields(kind) if field.name not in without]
    for name, value in stored.items():
        if name not in allowed:
            raise ConfigurationError(
                f"{place} has the unknown setting {name!r}.", next=f"Known: {', '.join(allowed)}.", file=path
            )
        expected = _KINDS.get(name, str)
        if not isinstance(value, expected):
            raise ConfigurationError(f"{name!r} in {place} must be a {expected.__name__}.", file=path)
    required = "to" if "to" in allowed else "channel"
    if required not in stored:
        raise ConfigurationError(f"{place} lacks the setting {required!r}.", file=path)
