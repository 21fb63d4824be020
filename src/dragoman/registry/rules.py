"""Metadata and rule sets as requests bring them.

Once their shape is right, they are kept as they are, but for members that say nothing: ``null``, an empty
list, an empty object, ``"disabled": false``. Clients differ in whether they send those, and mean the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from dragoman.core.errors import ConfigurationError

_Scalar = str | int | float | bool | None


class _Metadata(msgspec.Struct):
    tags: dict[str, list[str]] | None = None
    properties: dict[str, _Scalar] | None = None
    sensitive: list[str] | None = None


class _Rule(msgspec.Struct, rename="camel"):
    name: str
    doc: str | None = None
    kind: Literal["TRANSFORM", "CONDITION"] | None = None
    mode: Literal["UPGRADE", "DOWNGRADE", "UPDOWN", "WRITE", "READ", "WRITEREAD"] | None = None
    type: str | None = None
    tags: list[str] | None = None
    params: dict[str, _Scalar] | None = None
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool | None = None


class _RuleSet(msgspec.Struct, rename="camel"):
    migration_rules: list[_Rule] | None = None
    domain_rules: list[_Rule] | None = None
    encoding_rules: list[_Rule] | None = None

    def parts(self) -> Iterator[tuple[str, list[_Rule]]]:
        yield "migrationRules", self.migration_rules or []
        yield "domainRules", self.domain_rules or []
        yield "encodingRules", self.encoding_rules or []


_MIGRATING = ("UPGRADE", "DOWNGRADE", "UPDOWN")


def tidy_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Without empty members, and with its sets in order; ``None`` if nothing is left."""
    kept = _said(metadata or {})
    if isinstance(kept.get("sensitive"), list):
        kept["sensitive"] = _set(kept["sensitive"])
    if isinstance(kept.get("tags"), dict):
        kept["tags"] = {path: _set(tags) for path, tags in kept["tags"].items()}
    return kept or None


def tidy_rule_set(rule_set: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Without empty members, in its rules too; ``None`` if nothing is left. The order of rules counts."""
    kept = _said(rule_set or {})
    for part, rules in kept.items():
        if isinstance(rules, list):
            kept[part] = [_tidy_rule(each) if isinstance(each, dict) else each for each in rules]
    return kept or None


def _tidy_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    kept = {member: value for member, value in _said(rule).items() if (member, value) != ("disabled", False)}
    if isinstance(kept.get("tags"), list):
        kept["tags"] = _set(kept["tags"])
    return kept


def _said(members: Mapping[str, Any]) -> dict[str, Any]:
    return {member: value for member, value in members.items() if value not in (None, "", [], {})}


def _set(members: Any) -> Any:
    """A list of names whose order says nothing."""
    names = isinstance(members, list) and all(isinstance(each, str) for each in members)
    return sorted(set(members)) if names else members


def check_metadata(metadata: Mapping[str, Any] | None) -> None:
    if metadata is None:
        return
    try:
        msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"The metadata is not right: {error}.",
            code="registry.invalid.body",
            next="It has tags, properties and sensitive.",
        ) from None


def check_rule_set(rule_set: Mapping[str, Any] | None) -> None:
    if rule_set is not None:
        _read(rule_set)


def check_rules(rule_set: Mapping[str, Any] | None) -> None:
    """What ``validateRules`` asks for: rules that say when they run, by what, and under one name each."""
    if rule_set is None:
        return
    for part, rules in _read(rule_set).parts():
        names = [rule.name for rule in rules]
        for rule in rules:
            migrates = rule.mode in _MIGRATING
            if not (rule.name and rule.kind and rule.mode and rule.type):
                raise _refused(f"The rule {rule.name!r} in {part} needs a name, a kind, a mode and a type.")
            if migrates != (part == "migrationRules"):
                raise _refused(f"The rule {rule.name!r} in {part} cannot have the mode {rule.mode}.")
            if names.count(rule.name) > 1:
                raise _refused(f"Two rules in {part} have the name {rule.name!r}.")


def _read(rule_set: Mapping[str, Any]) -> _RuleSet:
    try:
        return msgspec.convert(rule_set, _RuleSet)
    except msgspec.ValidationError as error:
        raise _refused(f"The rule set is not right: {error}.") from None


def _refused(what: str) -> ConfigurationError:
    return ConfigurationError(what, code="registry.invalid.rule-set")
