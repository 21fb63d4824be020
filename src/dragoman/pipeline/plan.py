"""What is read, as what: made by the driver, sent to every worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import pyarrow as pa

from dragoman.core.broker import LogReader
from dragoman.core.errors import ChannelNotFound, ConfigurationError
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.pipeline.arrow import Decoder
from dragoman.pipeline.arrow.decoder import struct_type
from dragoman.pipeline.layout import ERROR, FRAME, META, source_schema
from dragoman.pipeline.newer import Following
from dragoman.pipeline.offsets import PerPartition
from dragoman.pipeline.options import SourceOptions
from dragoman.pipeline.schemas import ReaderVersion, schemas
from dragoman.pipeline.waiting import patiently
from dragoman.schema.naming import Naming

RESERVED = frozenset({META, ERROR, FRAME})


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """``reader`` is ``None`` for raw frames, and for messages in their writers' own versions.

    ``channels`` are those that were there; a pattern may find more while a stream runs. ``versions`` are
    those of the channels' contracts that have the reader's schema.
    """

    options: SourceOptions
    reader: ReaderVersion | None
    channels: tuple[str, ...]
    versions: tuple[tuple[str, int], ...] = ()

    def contract_of(self, channel: str) -> str:
        """Whose versions a channel's messages were written as."""
        return self.options.contract or Naming.CHANNEL.for_value(channel, "")

    def following(self, channel: str, streaming: bool) -> Following | None:
        """A channel as what it is read as; ``None`` if a later version does not matter to the reader."""
        if self.reader is None or self.options.version != "latest":
            return None
        contract, options = self.contract_of(channel), self.options
        own = dict(self.versions).get(contract, 0)
        return Following(contract, self.reader, own, options.registry, options.mapping, streaming, channel)

    def schema(self) -> Any:
        options = self.options
        if options.mode == "raw":
            columns = pa.struct([])
        else:
            columns = struct_type(self.reader.schema if self.reader else None, options.mapping)
        taken = RESERVED & {each.name for each in columns}
        if taken:
            raise ConfigurationError(
                f"The contract has fields that the source needs for itself: {', '.join(sorted(taken))}.",
                next="Read the channel with mode raw, and decode(..., into='value').",
            )
        return source_schema(columns, options.mode, options.include_meta)


def make_plan(options: SourceOptions, seconds: float) -> ReadPlan:
    """Look up channels and the contract's version. The version is fixed from here on."""
    channels = patiently(lambda: _existing(open_log(options.broker), options.channel), seconds)
    _refuse_others(options, channels)
    plan = ReadPlan(options, None, tuple(channels))
    if options.mode == "raw" or options.version == "writer":
        return plan
    contracts = sorted({plan.contract_of(channel) for channel in channels})
    found = patiently(lambda: _readers(options, contracts), seconds)
    return replace(plan, reader=found[0], versions=tuple((each.contract, each.version) for each in found))


def _existing(log: LogReader, given: str) -> list[str]:
    """The channels. Raises ``ChannelNotFound`` for one that is not there."""
    names = channels_of(log, given)
    for name in names:
        log.partitions(name)
    return names


def _refuse_others(options: SourceOptions, channels: list[str]) -> None:
    """Offsets of a channel that is not read would bound nothing."""
    for bound in (options.starting_offsets, options.ending_offsets):
        named = {name for name, _ in bound.offsets if name} if isinstance(bound, PerPartition) else set()
        if not named <= set(channels):
            raise ConfigurationError(
                f"There are offsets for {', '.join(sorted(named - set(channels)))}, which is not read.",
                code="configuration.option",
                next=f"Channels: {', '.join(channels)}.",
            )


def _readers(options: SourceOptions, contracts: list[str]) -> list[ReaderVersion]:
    """Of each contract the version to read as; all have one schema."""
    known = schemas(options.registry)
    found = [known.reader(name, options.version) for name in contracts]
    if len({each.schema for each in found}) > 1:
        raise ConfigurationError(
            f"The channels have different contracts: {', '.join(each.contract for each in found)}.",
            code="configuration.contract",
            next="Set the option contract to the one that all of them are to be read as.",
        )
    return found


def channels_of(log: LogReader, given: str) -> list[str]:
    """The channels that a name, several with commas, or a pattern such as ``loan.*`` stand for, in order."""
    names: set[str] = set()
    existing: list[str] | None = None
    for part in filter(None, (each.strip() for each in given.split(","))):
        if not any(sign in part for sign in "*?["):
            names.add(part)
            continue
        existing = list(log.channels()) if existing is None else existing
        names.update(each for each in existing if fnmatchcase(each, part))
    if not names:
        raise ChannelNotFound(
            f"No channel matches {given!r}.",
            next=f"There are: {', '.join(sorted(existing or [])) or 'none'}.",
        )
    return sorted(names)


@lru_cache(maxsize=16)
def open_log(broker: str) -> LogReader:
    """The log of a broker, opened once per process. Raises ``Unsupported`` if it keeps no history."""
    log: LogReader = load(BROKERS, scheme_of(broker))(broker).log()
    return log


@lru_cache(maxsize=64)
def decoder_for(plan: ReadPlan) -> Decoder:
    """One per plan and process: its compiled plans outlive the tasks."""
    reader = plan.reader.schema if plan.reader else None
    return Decoder(reader, schemas(plan.options.registry).text, plan.options.mapping)
