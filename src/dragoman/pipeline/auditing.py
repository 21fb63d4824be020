"""Would all of history still be readable? Every message decoded under a schema that is not registered yet."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dragoman.core.errors import DragomanError
from dragoman.pipeline.arrow import Audit, Decoder, SchemaText
from dragoman.pipeline.arrow.formats import column_format
from dragoman.pipeline.installing import install
from dragoman.pipeline.options import RegistryAccess, SourceOptions, registry_options
from dragoman.pipeline.profile import Profile
from dragoman.pipeline.schemas import schemas

_RESULT = "result binary"


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
    """Read the channel's whole history. The driver sees counts and examples, never messages."""
    install(spark)
    column_format(candidate.type).struct_type(candidate, options.mapping)
    access = options.registry
    frames = (
        spark.read.format("dragoman")
        .options(broker=options.broker, channel=options.channel, mode="raw", **registry_options(access))
        .load()
        .select("frame", "_meta.partition", "_meta.offset")
    )
    worker = _worker(candidate, access, options)
    report = AuditReport(contract, options.channel)
    for row in frames.mapInArrow(worker, _RESULT).toLocalIterator():
        audit, profile = pickle.loads(row.result)  # noqa: S301 -- made by our own workers
        report.audit.merge(audit)
        report.profile.merge(profile)
    _describe(report, candidate, access, options)
    return report


def _worker(
    candidate: SchemaText, access: RegistryAccess, options: SourceOptions
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        decoder = Decoder(candidate, schemas(access).text, options.mapping)
        audit, profile = Audit(), Profile()
        for batch in batches:
            for partition, rows in _by_partition(batch):
                decoded = decoder.decode(rows.column("frame"))
                audit.add(decoded, partition, rows.column("offset").to_numpy())
                profile.add(decoded.values)
        yield pa.record_batch([pa.array([pickle.dumps((audit, profile))], pa.binary())], ["result"])

    return work


def _by_partition(batch: Any) -> Iterator[tuple[int, Any]]:
    partitions = batch.column("partition")
    found = partitions.unique().to_pylist()
    for partition in found:
        yield partition, batch if len(found) == 1 else batch.filter(pc.equal(partitions, partition))


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
