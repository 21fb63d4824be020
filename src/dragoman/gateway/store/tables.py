"""The tables of the gateway, made once."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.core.database import Database, Transaction
from dragoman.core.errors import ConfigurationError

_TYPES: Mapping[str, Mapping[str, str]] = {
    "sqlite": {"key": "TEXT", "real": "REAL"},
    "postgres": {"key": 'VARCHAR(255) COLLATE "C"', "real": "DOUBLE PRECISION"},
}

_TABLES = (
    """CREATE TABLE IF NOT EXISTS gateway_tickets (
        id {key} NOT NULL PRIMARY KEY, digest {key} NOT NULL, made {real} NOT NULL,
        expires {real} NOT NULL, outcome TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS gateway_tickets_expires ON gateway_tickets (expires)",
    """CREATE TABLE IF NOT EXISTS gateway_responses (
        client {key} NOT NULL, request {key} NOT NULL, owner {key} NOT NULL, entity {key} NOT NULL,
        level {key} NOT NULL, token {key} NOT NULL, collect {key} NOT NULL, lease {real} NOT NULL,
        expires {real} NOT NULL, body TEXT NOT NULL, leased_until {real} NOT NULL,
        collector {key} NOT NULL DEFAULT '',
        PRIMARY KEY (client, request, owner, entity))""",
    "CREATE INDEX IF NOT EXISTS gateway_responses_owner ON gateway_responses (owner, expires)",
    "CREATE INDEX IF NOT EXISTS gateway_responses_expires ON gateway_responses (expires)",
    """CREATE TABLE IF NOT EXISTS gateway_keys (
        id {key} NOT NULL PRIMARY KEY, owner {key} NOT NULL, secret {key} NOT NULL,
        resources TEXT NOT NULL, created {real} NOT NULL, expires {real})""",
)


def make_tables(database: Database) -> None:
    types = _TYPES.get(database.dialect)
    if types is None:
        raise ConfigurationError(
            f"The gateway does not keep its store in {database.dialect}.",
            next="Use sqlite://, postgresql:// or redis://.",
        )
    with database.transaction() as tx:
        if database.dialect == "postgres":
            # Gateways that start at once must not make the same table twice.
            tx.execute("SELECT pg_advisory_xact_lock(7264001)")
        for statement in _TABLES:
            tx.execute(statement.format_map(types))
        _add_collector(tx, database.dialect, types)


def _add_collector(tx: Transaction, dialect: str, types: Mapping[str, str]) -> None:
    """Stores made by older gateways do not have this column. Those gateways go on working with it."""
    column = "collector {key} NOT NULL DEFAULT ''".format_map(types)
    if dialect == "postgres":
        tx.execute(f"ALTER TABLE gateway_responses ADD COLUMN IF NOT EXISTS {column}")
    elif not tx.execute("SELECT 1 FROM pragma_table_info('gateway_responses') WHERE name = 'collector'"):
        tx.execute(f"ALTER TABLE gateway_responses ADD COLUMN {column}")
