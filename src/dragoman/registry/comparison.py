"""Two versions of a contract side by side: what changed, and which strategies allow it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dragoman.core.contract import Compatibility, Incompatibility, Verdict
from dragoman.core.database import Transaction
from dragoman.core.errors import SchemaError
from dragoman.core.format import Policy
from dragoman.registry.fields import Fields, fields_of
from dragoman.registry.lookup import version_of
from dragoman.registry.model import Json, StoredVersion
from dragoman.registry.name import ContractName
from dragoman.registry.parsing import Parser
from dragoman.registry.store import contracts, settings
from dragoman.schema.compatibility import Numbered, check


class FieldChange(NamedTuple):
    """``before`` is missing for an added field, ``after`` for a removed one."""

    path: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> str:
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


class Comparison(NamedTuple):
    contract: str
    older: int
    newer: int
    changes: tuple[FieldChange, ...]
    verdicts: dict[Compatibility, Verdict]
    """For each strategy, whether ``newer`` might have followed under it."""

    def value(self) -> Json:
        """As the API shows it."""
        return {
            "contract": self.contract,
            "from": self.older,
            "to": self.newer,
            "changes": [
                {"path": each.path, "kind": each.kind, "before": each.before, "after": each.after}
                for each in self.changes
            ],
            "verdicts": {
                strategy.value: {"compatible": verdict.compatible, "version": verdict.version}
                for strategy, verdict in self.verdicts.items()
            },
            "reasons": [
                {"rule": reason.rule, "message": reason.message, "readerPath": reason.reader_path}
                for reason in self.reasons
            ],
        }

    @property
    def reasons(self) -> tuple[Incompatibility, ...]:
        """Every reason against any strategy, once."""
        found = [reason for verdict in self.verdicts.values() for reason in verdict.reasons]
        return tuple(dict.fromkeys(found))


def compare(tx: Transaction, parser: Parser, name: ContractName, older: int, newer: int) -> Comparison:
    """Deleted versions can be compared too. Raises ``NotFound``."""
    old = version_of(tx, name, older, deleted=True)
    new = version_of(tx, name, newer, deleted=True)
    policy = settings.effective(tx, name).policy
    earlier = [each for each in contracts.versions(tx, name) if each.version < old.version]
    verdicts = {
        strategy: _verdict(tx, parser, new, [*earlier, old], strategy, policy) for strategy in Compatibility
    }
    changes = changed(_fields(tx, parser, old), _fields(tx, parser, new))
    return Comparison(str(name), old.version, new.version, changes, verdicts)


def _verdict(
    tx: Transaction,
    parser: Parser,
    new: StoredVersion,
    existing: Sequence[StoredVersion],
    strategy: Compatibility,
    policy: Policy | None,
) -> Verdict:
    try:
        candidate, *others = (_numbered(tx, parser, each) for each in (new, *existing))
    except SchemaError as error:
        reason = Incompatibility("UNREADABLE", error.what)
        return Verdict(strategy is Compatibility.NONE, () if strategy is Compatibility.NONE else (reason,))
    return check(candidate.format, candidate.schema, others, strategy, policy)


def _numbered(tx: Transaction, parser: Parser, version: StoredVersion) -> Numbered:
    schema = version.schema
    parsed = parser.parse(tx, schema.type, schema.text, schema.references, schema.context)
    return Numbered(version.version, parsed.format, parsed.schema)


def _fields(tx: Transaction, parser: Parser, version: StoredVersion) -> Fields:
    schema = version.schema
    try:
        parsed = parser.parse(tx, schema.type, schema.text, schema.references, schema.context)
        return fields_of(schema.type, parsed.schema.normalised(1))
    except SchemaError:
        return {"": schema.text}


def changed(before: Fields, after: Fields) -> tuple[FieldChange, ...]:
    """In the order of the older version, then what is new."""
    paths = dict.fromkeys([*before, *after])
    return tuple(
        FieldChange(path, before.get(path), after.get(path))
        for path in paths
        if before.get(path) != after.get(path)
    )
