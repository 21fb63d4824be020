"""Would all of history still be readable? Every message decoded under a schema that is not registered yet."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from dragoman.core.errors import DragomanError
from dragoman.pipeline.arrow import Audit, Decoder, SchemaText
from dragoman.pipeline.arrow.formats import column_format
from dragoman.pipeline.batch import WAIT_SECONDS, planned_ranges
from dragoman.pipeline.options import RegistryAccess, SourceOptions
from dragoman.pipeline.plan import ReadPlan, make_plan
from dragoman.pipeline.profile import Profile
from dragoman.pipeline.ranges import grouped, split
from dragoman.pipeline.reading import Range, RangeReader
from dragoman.pipeline.schemas import schemas
from dragoman.pipeline.waiting import patiently

_RESULT = "result binary"
MESSAGES_OF_A_TASK = 100_000
"""A partition with more is audited by several tasks."""
MOST_RESULTS = 64
"""So many workers' counts and profiles, at most, are with the driver at once."""


@dataclass(slots=True)
class AuditReport:
    """``defaults`` tells by schema id which fields of the candidate its messages lack."""

    contract: str
    channel: str
    audit: Audit = field(default_factory=Audit)
    profile: Profile = field(default_factory=Profile)
    versions: dict[int, int | None] = field(default_factory=dict)
    defaults: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def readable(self) -> bool:
        return self.audit.failed == 0


def audit_channel(spark: Any, options: SourceOptions, contract: str, candidate: SchemaText) -> AuditReport:
    """Read the channel's whole history. The driver sees counts and examples, never messages.

    What goes to the workers are ranges: each reads the log itself, and decodes what it has read.
    """
    column_format(candidate.type).struct_type(candidate, options.mapping)
    plan = make_plan(replace(options, mode="raw"), WAIT_SECONDS)
    ranges = patiently(lambda: planned_ranges(plan), WAIT_SECONDS)
    total = sum(each.end - each.start for each in ranges)
    tasks = grouped(split(ranges, min(MOST_RESULTS, total // MESSAGES_OF_A_TASK)))
    report = AuditReport(contract, options.channel)
    if tasks:
        numbers = spark.range(0, len(tasks), 1, min(len(tasks), MOST_RESULTS))
        for row in numbers.mapInArrow(_worker(tasks, plan, candidate), _RESULT).collect():
            audit, profile = pickle.loads(row.result)  # noqa: S301 -- made by our own workers
            report.audit.merge(audit)
            report.profile.merge(profile)
    _describe(report, candidate, options.registry, options)
    return report


def _worker(
    tasks: list[tuple[Range, ...]], plan: ReadPlan, candidate: SchemaText
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        decoder = Decoder(candidate, schemas(plan.options.registry).text, plan.options.mapping)
        reader = RangeReader(plan, None, WAIT_SECONDS)
        audit, profile = Audit(), Profile()
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for each in tasks[number]:
                for columns in reader.columns(each):
                    decoded = patiently(partial(decoder.decode, columns.frames), WAIT_SECONDS)
                    audit.add(decoded, each.partition, columns.offsets.to_numpy())
                    profile.add(decoded.values)
        yield pa.record_batch([pa.array([pickle.dumps((audit, profile))], pa.binary())], ["result"])

    return work


def _describe(
    report: AuditReport, candidate: SchemaText, access: RegistryAccess, options: SourceOptions
) -> None:
    known = schemas(access)
    fields = column_format(candidate.type).struct_type(candidate, options.mapping)
    names = [each.name for each in fields]
    for schema_id in {finding.schema_id for finding in report.audit.counts}:
        report.versions[schema_id] = None
        if schema_id < 0:
            continue
        report.versions[schema_id] = known.writer_version(report.contract, schema_id)
        try:
            writer = known.text(schema_id)
            written = {each.name for each in column_format(writer.type).struct_type(writer, options.mapping)}
        except DragomanError:
            continue
        report.defaults[schema_id] = tuple(name for name in names if name not in written)
