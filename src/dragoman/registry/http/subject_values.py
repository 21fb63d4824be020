"""Shapes of the subject API: what clients of Confluent's registry send and expect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dragoman.core.database import Transaction
from dragoman.core.errors import ConfigurationError, InvalidSchema, SchemaError
from dragoman.core.format import Policy
from dragoman.registry.access import Role
from dragoman.registry.http.answers import SUBJECT_JSON, json_answer
from dragoman.registry.http.contracts import compatibility_named
from dragoman.registry.http.requests import ReferenceBody, keep_not, principal_of
from dragoman.registry.inlining import inlined, referenced
from dragoman.registry.model import GREATEST_NUMBER, Draft, Json, Settings, StoredSchema, StoredVersion
from dragoman.registry.parsing import Parser
from dragoman.registry.refusals import invalid_policy

FORMS = ("serialized", "resolved")
"""Other writings of a schema that its format may offer, asked for by ``?format=``."""


class SubjectBody(msgspec.Struct, rename="camel"):
    """A schema in the subject API. Unknown members are ignored, as newer clients expect."""

    schema: str | None = None
    schema_type: str | None = None
    references: list[ReferenceBody] | None = None
    metadata: Json | None = None
    rule_set: Json | None = None
    id: int | None = None
    version: int | None = None

    def draft(self) -> Draft:
        if not self.schema:
            raise InvalidSchema("Empty schema")
        if max(self.id or 0, self.version or 0) > GREATEST_NUMBER:
            raise ConfigurationError(
                f"Ids and versions end at {GREATEST_NUMBER}.", code="registry.invalid.body"
            )
        return Draft(
            self.schema_type or "AVRO",
            self.schema,
            tuple(each.value() for each in self.references or ()),
            self.metadata,
            self.rule_set,
            self.id if self.id is not None and self.id > 0 else None,
            self.version if self.version is not None and self.version > 0 else None,
        )


class ConfigBody(msgspec.Struct, rename="camel"):
    compatibility: str | None = None
    compatibility_level: str | None = None
    compatibility_policy: str | None = None
    compatibility_group: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_rules: bool | None = None
    validate_new_schemas: bool | None = None
    alias: str | None = None
    default_metadata: Json | None = None
    override_metadata: Json | None = None
    default_rule_set: Json | None = None
    override_rule_set: Json | None = None

    def settings(self) -> Settings:
        level = self.compatibility or self.compatibility_level
        if self.validate_new_schemas is False:
            raise ConfigurationError(
                "New schemas are always validated.",
                code="registry.invalid.body",
                next="Leave validateNewSchemas out.",
            )
        return Settings(
            compatibility_named(level) if level else None,
            policy_named(self.compatibility_policy) if self.compatibility_policy else None,
            self.compatibility_group,
            self.normalize,
            self.validate_fields,
            self.validate_rules,
            self.alias,
            self.default_metadata,
            self.override_metadata,
            self.default_rule_set,
            self.override_rule_set,
        )


def policy_named(text: str) -> Policy:
    try:
        return Policy(text.upper())
    except ValueError:
        raise invalid_policy() from None


def answer(value: Any, status: int = 200) -> Response:
    return json_answer(value, status, SUBJECT_JSON)


def form_of(request: Request, tx: Transaction, parser: Parser, schema: StoredSchema) -> str:
    """The text, or the form of it that the request asks for; a form that is not there is ignored."""
    wanted = request.query_params.get("format", "")
    if wanted not in FORMS:
        return schema.text
    try:
        parsed = parser.parse(tx, schema.type, schema.text, schema.references, schema.context)
        if wanted == "resolved" and schema.type == "AVRO":
            _require_references(request, tx, schema)
            return inlined(tx, parser, schema)
    except (SchemaError, RecursionError):
        return schema.text
    render: Callable[[], str] | None = getattr(parsed.schema, wanted, None)
    return render() if render else schema.text


def _require_references(request: Request, tx: Transaction, schema: StoredSchema) -> None:
    """The resolved form shows the text of all that a schema refers to: the reader must have the right to it.

    Such an answer is not kept, since the next caller may have fewer rights.
    """
    if schema.references:
        keep_not(request)
    for name in referenced(tx, schema):
        principal_of(request).require(Role.READ, name)


def schema_string(schema: StoredSchema, text: str) -> Json:
    """A schema without its subject. An Avro schema does not name its type, as ever."""
    value: Json = {} if schema.type == "AVRO" else {"schemaType": schema.type}
    value["schema"] = text
    if schema.references:
        value["references"] = [
            {"name": each.name, "subject": each.contract, "version": each.version}
            for each in schema.references
        ]
    if schema.metadata is not None:
        value["metadata"] = schema.metadata
    if schema.rule_set is not None:
        value["ruleSet"] = schema.rule_set
    value["guid"] = schema.guid
    return value


def subject_version(found: StoredVersion, text: str) -> Json:
    value: Json = {"subject": str(found.name), "version": found.version, "id": found.schema.id}
    value.update(schema_string(found.schema, text))
    if found.deleted:
        value["deleted"] = True
    return value


def config_value(settings: Settings, *, level: str = "compatibilityLevel") -> Json:
    """Settings as the API shows them: ``compatibilityLevel`` when read, ``compatibility`` when echoed."""
    named: dict[str, Any] = {
        "alias": settings.alias,
        "normalize": settings.normalize,
        "validateFields": settings.validate_fields,
        "validateRules": settings.validate_rules,
        level: settings.compatibility.value if settings.compatibility else None,
        "compatibilityPolicy": settings.policy.value if settings.policy else None,
        "compatibilityGroup": settings.group,
        "defaultMetadata": settings.default_metadata,
        "overrideMetadata": settings.override_metadata,
        "defaultRuleSet": settings.default_rule_set,
        "overrideRuleSet": settings.override_rule_set,
    }
    return {name: value for name, value in named.items() if value is not None}
