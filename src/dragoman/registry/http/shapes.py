"""The shapes of bodies and parameters, as the OpenAPI document tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dragoman.registry.model import GREATEST_NUMBER

Json = dict[str, Any]

STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
BOOLEAN: Json = {"type": "boolean"}
STRINGS: Json = {"type": "array", "items": STRING}
INTEGERS: Json = {"type": "array", "items": INTEGER}


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    place: Literal["path", "query"]
    description: str
    schema: Json


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    name: str
    summary: str
    tag: str
    parameters: tuple[Parameter, ...] = ()
    body: str | Json | None = None
    answer: str | Json | None = None
    media_type: str = "application/json"
    error_media_type: str | None = None


def flag(name: str, description: str) -> Parameter:
    return Parameter(name, "query", description, BOOLEAN)


NAME = Parameter("name", "path", "The contract's name.", {"type": "string", "minLength": 1})
VERSION = Parameter(
    "version", "path", "A number, or latest.", {"type": "string", "pattern": "^([1-9][0-9]{0,8}|latest)$"}
)
ID = Parameter(
    "id", "path", "The schema's id.", {"type": "integer", "minimum": 1, "maximum": GREATEST_NUMBER}
)
CHANNEL = Parameter("channel", "path", "The channel's name.", {"type": "string", "minLength": 1})
NORMALIZE = flag("normalize", "Apply level-2 normalisation first.")
PERMANENT = flag("permanent", "The second step: gone for good.")
OFFSET = Parameter("offset", "query", "How many to skip.", INTEGER)
LIMIT = Parameter("limit", "query", "How many at most; 0 or less for all.", INTEGER)
PREFIX = Parameter("prefix", "query", "How the names start.", STRING)

SHAPES: dict[str, Json] = {
    "Error": {
        "type": "object",
        "required": ["error_code", "message"],
        "properties": {
            "error_code": INTEGER,
            "message": STRING,
            "code": STRING,
            "where": {"type": "object"},
            "next": STRING,
            "reasons": {"type": "array", "items": {"$ref": "#/components/schemas/Reason"}},
        },
    },
    "Reference": {
        "type": "object",
        "required": ["name", "contract", "version"],
        "properties": {"name": STRING, "contract": STRING, "version": INTEGER},
    },
    "SchemaBody": {
        "type": "object",
        "required": ["schema"],
        "properties": {
            "type": {"type": "string", "enum": ["AVRO", "JSON", "PROTOBUF", "THRIFT"], "default": "AVRO"},
            "schema": STRING,
            "references": {"type": "array", "items": {"$ref": "#/components/schemas/Reference"}},
            "metadata": {"type": "object"},
        },
    },
    "Schema": {
        "type": "object",
        "required": ["id", "type", "schema"],
        "properties": {
            "id": INTEGER,
            "type": STRING,
            "schema": STRING,
            "guid": STRING,
            "fingerprint": {"type": ["string", "null"]},
            "references": {"type": "array", "items": {"$ref": "#/components/schemas/Reference"}},
            "metadata": {"type": "object"},
        },
    },
    "Version": {
        "allOf": [
            {"$ref": "#/components/schemas/Schema"},
            {
                "type": "object",
                "required": ["contract", "version", "schemaID"],
                "properties": {"contract": STRING, "version": INTEGER, "schemaID": INTEGER},
            },
        ]
    },
    "Contract": {
        "type": "object",
        "required": ["name", "channel", "compatibility", "version", "updateOrder"],
        "properties": {
            "name": STRING,
            "channel": STRING,
            "compatibility": STRING,
            "version": INTEGER,
            "updateOrder": {"enum": ["consumer first", "producer first", "any", "undefined"]},
            "channels": STRINGS,
        },
    },
    "CompatibilityBody": {
        "type": "object",
        "required": ["compatibility"],
        "properties": {"compatibility": STRING},
    },
    "Success": {"type": "object", "required": ["success"], "properties": {"success": BOOLEAN}},
    "Reason": {
        "type": "object",
        "required": ["rule", "message"],
        "properties": {
            "rule": STRING,
            "message": STRING,
            "readerPath": STRING,
            "writerPath": STRING,
            "counterexample": {"type": ["string", "null"]},
        },
    },
    "Verdict": {
        "type": "object",
        "required": ["compatible", "reasons"],
        "properties": {
            "compatible": BOOLEAN,
            "version": {"type": ["integer", "null"]},
            "reasons": {"type": "array", "items": {"$ref": "#/components/schemas/Reason"}},
        },
    },
    "Versions": {"type": "object", "required": ["versions"], "properties": {"versions": INTEGERS}},
    "Status": {"type": "object", "required": ["status"], "properties": {"status": STRING}},
    "Change": {
        "type": "object",
        "required": ["id", "at", "author", "action", "contract"],
        "properties": {
            "id": INTEGER,
            "at": STRING,
            "author": STRING,
            "action": STRING,
            "contract": STRING,
            "version": {"type": ["integer", "null"]},
            "detail": {"type": "object"},
        },
    },
    "Comparison": {
        "type": "object",
        "required": ["contract", "from", "to", "changes", "verdicts"],
        "properties": {
            "contract": STRING,
            "from": INTEGER,
            "to": INTEGER,
            "changes": {"type": "array", "items": {"type": "object"}},
            "verdicts": {"type": "object"},
            "reasons": {"type": "array", "items": {"type": "object"}},
        },
    },
    "Binding": {"type": "object", "properties": {"contract": STRING, "channel": STRING}},
    "KeyBody": {
        "type": "object",
        "required": ["owner", "grants"],
        "properties": {"owner": STRING, "grants": STRINGS, "lifetime": {"type": "number"}},
    },
    "Key": {
        "type": "object",
        "required": ["id", "kind", "owner", "grants"],
        "properties": {
            "id": STRING,
            "kind": STRING,
            "owner": STRING,
            "grants": STRINGS,
            "created": {"type": "number"},
            "expires": {"type": ["number", "null"]},
        },
    },
    "SubjectUse": {
        "type": "object",
        "required": ["subject", "version"],
        "properties": {"subject": STRING, "version": INTEGER},
    },
    "NewKey": {
        "type": "object",
        "required": ["id", "secret", "token"],
        "properties": {"id": STRING, "secret": STRING, "token": STRING},
    },
    "Bundle": {
        "type": "object",
        "required": ["format"],
        "properties": {
            "format": INTEGER,
            "contexts": {"type": "object"},
            "contracts": {"type": "array"},
            "scopes": {"type": "array"},
        },
    },
    "SubjectReference": {
        "type": "object",
        "required": ["name", "subject", "version"],
        "properties": {"name": STRING, "subject": STRING, "version": INTEGER},
    },
    "SubjectBody": {
        "type": "object",
        "required": ["schema"],
        "properties": {
            "schema": STRING,
            "schemaType": {"type": "string", "enum": ["AVRO", "JSON", "PROTOBUF", "THRIFT"]},
            "references": {"type": "array", "items": {"$ref": "#/components/schemas/SubjectReference"}},
            "metadata": {"type": "object"},
            "ruleSet": {"type": "object"},
            "id": INTEGER,
            "version": INTEGER,
        },
    },
    "SubjectSchema": {
        "type": "object",
        "required": ["schema"],
        "properties": {
            "schema": STRING,
            "schemaType": STRING,
            "references": {"type": "array", "items": {"$ref": "#/components/schemas/SubjectReference"}},
            "metadata": {"type": "object"},
            "ruleSet": {"type": "object"},
            "guid": STRING,
            "maxId": INTEGER,
        },
    },
    "SubjectVersion": {
        "allOf": [
            {"$ref": "#/components/schemas/SubjectSchema"},
            {
                "type": "object",
                "required": ["subject", "version", "id"],
                "properties": {"subject": STRING, "version": INTEGER, "id": INTEGER, "deleted": BOOLEAN},
            },
        ]
    },
    "SubjectError": {
        "type": "object",
        "required": ["error_code", "message"],
        "properties": {"error_code": INTEGER, "message": STRING},
        "additionalProperties": False,
    },
    "Registered": {"type": "object", "required": ["id"], "properties": {"id": INTEGER}},
    "Compatible": {
        "type": "object",
        "required": ["is_compatible"],
        "properties": {"is_compatible": BOOLEAN, "messages": STRINGS},
    },
    "Config": {
        "type": "object",
        "properties": {
            "compatibility": STRING,
            "compatibilityLevel": STRING,
            "compatibilityPolicy": STRING,
            "compatibilityGroup": STRING,
            "normalize": BOOLEAN,
            "validateFields": BOOLEAN,
            "validateRules": BOOLEAN,
            "alias": STRING,
            "defaultMetadata": {"type": "object"},
            "overrideMetadata": {"type": "object"},
            "defaultRuleSet": {"type": "object"},
            "overrideRuleSet": {"type": "object"},
        },
    },
    "Mode": {"type": "object", "required": ["mode"], "properties": {"mode": STRING}},
}
