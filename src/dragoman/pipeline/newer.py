"""Stop a read before it reads messages of a contract's later version by the columns of an earlier one.

The columns are those of the version that was the latest when the DataFrame was made or the stream started.
Fields that a later version adds have no column: a read that went on would drop them, and a stream would never
read these messages again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dragoman.core.errors import ConfigurationError, Conflict, NotFound, SchemaError
from dragoman.pipeline.arrow import Mapping, SchemaText
from dragoman.pipeline.arrow.decoder import struct_type
from dragoman.pipeline.arrow.formats import column_format
from dragoman.pipeline.options import RegistryAccess
from dragoman.pipeline.schemas import ReaderVersion, Schemas, schemas


@dataclass(frozen=True, slots=True)
class Following:
    """A batch or stream of messages of one contract, and what they are read as.

    ``own`` is the contract's version that has the reader's schema, 0 if none has: then the messages are of a
    channel that came after the start.
    """

    contract: str
    reader: ReaderVersion
    own: int
    registry: RegistryAccess
    mapping: Mapping
    streaming: bool
    channel: str = ""

    def refuse_newer(self, schema_ids: Iterable[int]) -> None:
        """Raise if messages of one of these schemas need a later reader.

        Call it after the messages were decoded: the registry then knows each schema that they were decoded
        by. Messages of the reader's version and of earlier ones need no other: a field that the reader lacks
        was removed. Messages of a schema that is no version, since it is another contract's or its version
        was deleted, are read as the latest version. After a start with the latest version nothing is later,
        so the same message cannot stop the stream again.
        """
        known = schemas(self.registry)
        for schema_id in schema_ids:
            try:
                schema = known.text(schema_id)
            except NotFound:
                continue
            written = known.writer_version(self.contract, schema_id)
            if (written is not None and written <= self.own) or self._means_the_same(schema):
                continue
            latest = _latest(known, self.contract)
            if latest is None or latest.version <= self.own or self._means_the_same(latest.schema):
                continue
            raise self._conflict(known, written, latest)

    def _means_the_same(self, schema: SchemaText) -> bool:
        """Whether a reader of this schema would read nothing else than this one."""
        try:
            return _meaning(schema, self.mapping) == _meaning(self.reader.schema, self.mapping)
        except (SchemaError, ConfigurationError):  # such as a type that contains itself, and did not before
            return False

    def _conflict(self, known: Schemas, written: int | None, latest: ReaderVersion) -> Conflict:
        reader = self.reader
        first = None if self.own else _latest(known, reader.contract)
        if first is not None and first.schema != latest.schema:
            return Conflict(
                "The channel came after the stream had started, and its contract is another one than "
                f"{reader.contract}, which the stream is read as.",
                code="pipeline.other-contract",
                next="Nothing of this batch was stored. Read the channel by a stream of its own, and start "
                "this one again with a pattern or names that leave the channel out.",
                channel=self.channel or None,
                contract=self.contract,
            )
        found = f"version {written} of" if written else "a schema that is no version of"
        read_as = f"version {self.own}" if self.own else f"{reader.contract}, version {reader.version}"
        what, since = ("stream", "it started") if self.streaming else ("batch", "the DataFrame was made")
        return Conflict(
            f"The {what} has messages of {found} its contract, and is read as {read_as}, "
            f"which was the latest when {since}.",
            code="pipeline.newer-version",
            next=self._next(latest),
            channel=self.channel or None,
            contract=self.contract,
        )

    def _next(self, latest: ReaderVersion) -> str:
        if self.streaming:
            return (
                "Nothing of this batch was stored. Start the stream again with the same checkpoint: "
                f"it goes on with version {latest.version}."
            )
        return (
            f"Make the DataFrame again: it is read as version {latest.version}. To read without the fields "
            "that were added later, choose a version by its number."
        )


def _latest(known: Schemas, contract: str) -> ReaderVersion | None:
    try:
        return known.reader(contract, "latest")
    except NotFound:
        return None


@lru_cache(maxsize=256)
def _meaning(schema: SchemaText, mapping: Mapping) -> tuple[object, Any]:
    """How its messages are read, and the columns made of them."""
    return column_format(schema.type).meaning(schema), struct_type(schema, mapping)
