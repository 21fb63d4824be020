"""Whether a contract would take a schema, and if not, why not."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.core.contract import Compatibility, Incompatibility, Verdict
from dragoman.core.database import Transaction
from dragoman.core.errors import IncompatibleSchema
from dragoman.registry.model import Json, Settings, StoredVersion
from dragoman.registry.name import ContractName
from dragoman.registry.parsing import Parser
from dragoman.registry.proposal import Proposal
from dragoman.registry.reserved import violations
from dragoman.schema.compatibility import Numbered
from dragoman.schema.compatibility import check as check_strategy


def judge(
    tx: Transaction,
    parser: Parser,
    proposal: Proposal,
    existing: Sequence[StoredVersion],
    settings: Settings,
) -> Verdict:
    """The proposal beside existing versions, given in rising order, under the contract's settings."""
    verdict = _judge_strategy(tx, parser, proposal, existing, settings)
    if not settings.validate_fields or proposal.parsed is None:
        return verdict
    latest = existing[-1] if existing else None
    reserved = violations(proposal.schema, latest.schema if latest else None)
    if not reserved:
        return verdict
    number = verdict.version or (latest.version if latest else None)
    return Verdict(False, (*verdict.reasons, *reserved), number)


def _judge_strategy(
    tx: Transaction,
    parser: Parser,
    proposal: Proposal,
    existing: Sequence[StoredVersion],
    settings: Settings,
) -> Verdict:
    strategy = settings.compatibility or Compatibility.BACKWARD
    parsed = proposal.parsed
    if parsed is None or strategy is Compatibility.NONE:
        return Verdict(True)
    compared = _same_group(existing, proposal.schema.metadata, settings.group)
    if not strategy.transitive:
        compared = compared[-1:]
    numbered = [_numbered(tx, parser, each) for each in compared]
    return check_strategy(parsed.format, parsed.schema, numbered, strategy, settings.policy)


def _numbered(tx: Transaction, parser: Parser, version: StoredVersion) -> Numbered:
    schema = version.schema
    parsed = parser.parse(tx, schema.type, schema.text, schema.references, version.name.context)
    return Numbered(version.version, parsed.format, parsed.schema)


def _same_group(
    existing: Sequence[StoredVersion], metadata: Json | None, group: str | None
) -> Sequence[StoredVersion]:
    if group is None:
        return existing
    wanted = _property(metadata, group)
    return [each for each in existing if _property(each.schema.metadata, group) == wanted]


def _property(metadata: Json | None, name: str) -> object:
    return ((metadata or {}).get("properties") or {}).get(name)


def refusal(
    name: ContractName, verdict: Verdict, old: StoredVersion | None, settings: Settings
) -> IncompatibleSchema:
    """The error for a verdict that is no. ``reasons`` go with it, for APIs that can show them."""
    details = ", ".join(describe(verdict.reasons, old, settings))
    error = IncompatibleSchema(
        f'Schema being registered is incompatible with an earlier schema for subject "{name}",'
        f" details: [{details}]",
        next="Change the schema, or the contract's compatibility strategy.",
        contract=str(name),
        version=verdict.version,
    )
    error.reasons = verdict.reasons
    return error


def describe(reasons: Sequence[Incompatibility], old: StoredVersion | None, settings: Settings) -> list[str]:
    """The reasons as clients of the subject API show them."""
    lines = [
        f"{{errorType:'{reason.rule}', description:'{reason.message}',"
        f" additionalInfo:'{_additional(reason)}'}}"
        for reason in reasons
    ]
    if old is not None:
        lines.append(f"{{oldSchemaVersion: {old.version}}}")
        lines.append(f"{{oldSchema: '{old.schema.text}'}}")
    validated = str(bool(settings.validate_fields)).lower()
    lines.append(f"{{validateFields: '{validated}', compatibility: '{settings.compatibility}'}}")
    return lines


def _additional(reason: Incompatibility) -> str:
    place = f"reader {reason.reader_path or '/'}, writer {reason.writer_path or '/'}"
    return f"{place}; example {reason.counterexample}" if reason.counterexample else place
