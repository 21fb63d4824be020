"""Bringing a database up to date: its tables, and what older programs did not store.

Older programs stored a reference to the latest version as such, so that the schema changed its meaning with
each new version. It gets the number that "latest" stands for now: the number that a registration gets today.
"""

from __future__ import annotations

from dataclasses import replace

from dragoman.core.database import Database, Transaction, TransactionConflict
from dragoman.core.errors import SchemaError
from dragoman.registry.identity import digest_of
from dragoman.registry.model import StoredSchema
from dragoman.registry.parsing import Parser
from dragoman.registry.proposal import identified
from dragoman.registry.store import schemas
from dragoman.registry.store.tables import migrate

_BATCH = 200
"""Schemas in one transaction: other nodes may be writing."""


def upgrade(database: Database, parser: Parser) -> tuple[int, int]:
    """Safe to run from several nodes at once; the shapes of the tables before and after."""
    shapes = migrate(database)
    while _identify_some(database, parser):
        pass
    return shapes


def _identify_some(database: Database, parser: Parser) -> bool:
    """Store the identity of schemas that have none; whether there was one."""
    with database.transaction(write=False) as tx:
        found = [_identified(tx, parser, each) for each in schemas.unidentified(tx, _BATCH)]
    if not found:
        return False
    try:
        with database.transaction() as tx:
            for schema in found:
                schemas.identify(tx, schema)
    except TransactionConflict:
        # Another node did the same, or writes. What is left is read again.
        pass
    return True


def _identified(tx: Transaction, parser: Parser, schema: StoredSchema) -> StoredSchema:
    """As it would be registered today. Its id and its GUID stay: messages name them."""
    pinned = replace(schema, references=parser.pinned(tx, schema.references, schema.context))
    return identified(pinned, _normal(tx, parser, pinned))


def _normal(tx: Transaction, parser: Parser, schema: StoredSchema) -> str:
    """The digest of the normal form, or, if the schema was imported and cannot be parsed, of its text."""
    try:
        return parser.parse(tx, schema.type, schema.text, schema.references, schema.context).normal
    except SchemaError:
        return digest_of(schema.text)
