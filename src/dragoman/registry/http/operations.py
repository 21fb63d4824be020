"""Every operation of the registry's HTTP interface, for the OpenAPI document."""

from __future__ import annotations

from dragoman.registry.http.answers import SUBJECT_JSON
from dragoman.registry.http.shapes import (
    CHANNEL,
    ID,
    INTEGERS,
    LIMIT,
    NAME,
    NORMALIZE,
    OFFSET,
    PERMANENT,
    PREFIX,
    STRINGS,
    VERSION,
    Json,
    Operation,
    Parameter,
    flag,
)


def _list_of(shape: str) -> Json:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{shape}"}}


CONTRACTS: tuple[Operation, ...] = (
    Operation("GET", "/schemas/{id}", "getSchema", "A schema by its id.", "schemas", (ID,), answer="Schema"),
    Operation(
        "GET",
        "/contracts",
        "listContracts",
        "Names of all contracts.",
        "contracts",
        (PREFIX, OFFSET, LIMIT),
        answer=STRINGS,
    ),
    Operation(
        "GET",
        "/contracts/{name}",
        "getContract",
        "A contract as it stands.",
        "contracts",
        (NAME,),
        answer="Contract",
    ),
    Operation(
        "POST",
        "/contracts/{name}",
        "register",
        "Register a schema: the version that has it, made if need be.",
        "contracts",
        (NAME, NORMALIZE),
        "SchemaBody",
        "Version",
    ),
    Operation(
        "DELETE",
        "/contracts/{name}",
        "deleteContract",
        "Hide a contract; then, permanently, remove it.",
        "contracts",
        (NAME, PERMANENT),
        answer="Versions",
    ),
    Operation(
        "GET",
        "/contracts/{name}/versions",
        "listVersions",
        "Numbers of a contract's versions.",
        "contracts",
        (NAME, OFFSET, LIMIT),
        answer=INTEGERS,
    ),
    Operation(
        "POST",
        "/contracts/{name}/versions",
        "find",
        "The version that has this schema.",
        "contracts",
        (NAME, NORMALIZE),
        "SchemaBody",
        "Version",
    ),
    Operation(
        "GET",
        "/contracts/{name}/versions/{version}",
        "getVersion",
        "One version of a contract with its schema.",
        "contracts",
        (NAME, VERSION),
        answer="Version",
    ),
    Operation(
        "DELETE",
        "/contracts/{name}/versions/{version}",
        "deleteVersion",
        "Hide a version; then, permanently, remove it.",
        "contracts",
        (NAME, VERSION, PERMANENT),
        answer="Versions",
    ),
    Operation(
        "POST",
        "/contracts/{name}/compatibility",
        "setCompatibility",
        "Set the compatibility strategy.",
        "contracts",
        (NAME,),
        "CompatibilityBody",
        "Success",
    ),
    Operation(
        "POST",
        "/contracts/{name}/check",
        "check",
        "Would this schema be accepted? Changes nothing.",
        "contracts",
        (
            NAME,
            NORMALIZE,
            Parameter("version", "query", "Compare with this version alone.", VERSION.schema),
        ),
        "SchemaBody",
        "Verdict",
    ),
)

EVOLUTION: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/contracts/{name}/channels",
        "listChannels",
        "Channels bound to a contract.",
        "contracts",
        (NAME,),
        answer=STRINGS,
    ),
    Operation(
        "PUT",
        "/contracts/{name}/channels/{channel}",
        "bind",
        "Bind a channel to a contract.",
        "contracts",
        (NAME, CHANNEL),
        answer="Binding",
    ),
    Operation(
        "DELETE",
        "/contracts/{name}/channels/{channel}",
        "unbind",
        "Release a channel.",
        "contracts",
        (NAME, CHANNEL),
        answer="Success",
    ),
    Operation(
        "GET",
        "/channels/{channel}/contracts",
        "contractsOfChannel",
        "Contracts that a channel is bound to.",
        "contracts",
        (CHANNEL,),
        answer=STRINGS,
    ),
    Operation(
        "GET",
        "/contracts/{name}/history",
        "history",
        "Who did what to a contract, newest first.",
        "contracts",
        (NAME, LIMIT),
        answer=_list_of("Change"),
    ),
    Operation(
        "GET",
        "/contracts/{name}/compare",
        "compare",
        "Two versions side by side, with a verdict per strategy.",
        "contracts",
        (
            NAME,
            Parameter("from", "query", "The older version; the one before, if not given.", VERSION.schema),
            Parameter("to", "query", "The newer version; the latest, if not given.", VERSION.schema),
        ),
        answer="Comparison",
    ),
)

ADMINISTRATION: tuple[Operation, ...] = (
    Operation(
        "GET", "/keys", "listKeys", "All keys, without secrets.", "administration", answer=_list_of("Key")
    ),
    Operation(
        "POST",
        "/keys",
        "createKey",
        "Make a key; its secret is shown this once.",
        "administration",
        body="KeyBody",
        answer="NewKey",
    ),
    Operation(
        "DELETE",
        "/keys/{id}",
        "revokeKey",
        "Revoke a key.",
        "administration",
        (Parameter("id", "path", "The key's id.", {"type": "string", "minLength": 1}),),
        answer="Success",
    ),
    Operation(
        "GET",
        "/history",
        "auditLog",
        "Every change, newest first.",
        "administration",
        (LIMIT,),
        answer=_list_of("Change"),
    ),
    Operation(
        "GET", "/export", "export", "The whole registry as one value.", "administration", answer="Bundle"
    ),
    Operation(
        "POST",
        "/import",
        "import",
        "Bring an export in; ids and versions are kept.",
        "administration",
        body="Bundle",
        answer={"type": "object"},
    ),
)

SUBJECT = Parameter("subject", "path", "The subject's name, which is the contract's.", NAME.schema)
DELETED = flag("deleted", "Show what is hidden too.")
VERBOSE = flag("verbose", "Say why not.")
FORCE = flag("force", "Skip the check.")
DEFAULT_TO_GLOBAL = flag("defaultToGlobal", "Fall back on wider scopes.")
GUID = Parameter("guid", "path", "The schema's GUID.", {"type": "string", "format": "uuid"})
VERSIONS = "/subjects/{subject}/versions"
COMPATIBILITY = "/compatibility/subjects/{subject}/versions"


def _subject(
    method: str,
    path: str,
    name: str,
    summary: str,
    *parameters: Parameter,
    body: str | None = None,
    answer: str | Json,
) -> Operation:
    return Operation(
        method, path, name, summary, "subjects", parameters, body, answer, SUBJECT_JSON, SUBJECT_JSON
    )


SUBJECTS: tuple[Operation, ...] = (
    _subject("GET", "/subjects", "listSubjects", "All subjects.", DELETED, OFFSET, LIMIT, answer=STRINGS),
    _subject(
        "POST",
        "/subjects/{subject}",
        "findInSubject",
        "The version that has this schema.",
        SUBJECT,
        NORMALIZE,
        DELETED,
        body="SubjectBody",
        answer="SubjectVersion",
    ),
    _subject(
        "DELETE",
        "/subjects/{subject}",
        "deleteSubject",
        "Hide, then remove.",
        SUBJECT,
        PERMANENT,
        answer=INTEGERS,
    ),
    _subject(
        "GET",
        VERSIONS,
        "listSubjectVersions",
        "Version numbers.",
        SUBJECT,
        DELETED,
        OFFSET,
        LIMIT,
        answer=INTEGERS,
    ),
    _subject(
        "POST",
        VERSIONS,
        "registerInSubject",
        "Register a schema.",
        SUBJECT,
        NORMALIZE,
        FORCE,
        body="SubjectBody",
        answer="Registered",
    ),
    _subject(
        "GET",
        VERSIONS + "/{version}",
        "getSubjectVersion",
        "One version.",
        SUBJECT,
        VERSION,
        DELETED,
        answer="SubjectVersion",
    ),
    _subject(
        "DELETE",
        VERSIONS + "/{version}",
        "deleteSubjectVersion",
        "Hide, then remove.",
        SUBJECT,
        VERSION,
        PERMANENT,
        answer={"type": "integer"},
    ),
    _subject(
        "GET", VERSIONS + "/{version}/referencedby", "referencedBy", "Ids.", SUBJECT, VERSION, answer=INTEGERS
    ),
    _subject(
        "POST",
        COMPATIBILITY + "/{version}",
        "checkVersion",
        "Check against one version.",
        SUBJECT,
        VERSION,
        NORMALIZE,
        VERBOSE,
        body="SubjectBody",
        answer="Compatible",
    ),
    _subject(
        "POST",
        COMPATIBILITY,
        "checkAll",
        "Check as registering would.",
        SUBJECT,
        NORMALIZE,
        VERBOSE,
        body="SubjectBody",
        answer="Compatible",
    ),
    _subject(
        "GET",
        "/schemas",
        "listSchemas",
        "All versions.",
        DELETED,
        OFFSET,
        LIMIT,
        answer=_list_of("SubjectVersion"),
    ),
    _subject(
        "GET",
        "/schemas/types",
        "listTypes",
        "Schema types.",
        flag("all", "Also the types that Confluent's registry does not have."),
        answer=STRINGS,
    ),
    _subject("GET", "/schemas/ids/{id}", "getById", "A schema by id.", ID, answer="SubjectSchema"),
    _subject("GET", "/schemas/ids/{id}/subjects", "subjectsOfId", "Subjects.", ID, DELETED, answer=STRINGS),
    _subject(
        "GET",
        "/schemas/ids/{id}/versions",
        "versionsOfId",
        "Versions.",
        ID,
        DELETED,
        answer=_list_of("SubjectUse"),
    ),
    _subject("GET", "/schemas/guids/{guid}", "getByGuid", "A schema by GUID.", GUID, answer="SubjectSchema"),
    *(
        _subject(
            method,
            path,
            f"{verb}{noun}{scope}",
            f"{summary} of {place}.",
            *parameters,
            body=body,
            answer=noun,
        )
        for noun, root, summary in (("Config", "/config", "Settings"), ("Mode", "/mode", "Mode"))
        for scope, place, path, within in (
            ("", "all", root, ()),
            ("OfSubject", "a subject", root + "/{subject}", (SUBJECT,)),
        )
        for verb, method, body, parameters in (
            ("get", "GET", None, (*within, DEFAULT_TO_GLOBAL)),
            ("put", "PUT", noun, within),
            ("delete", "DELETE", None, within),
        )
    ),
    _subject("GET", "/contexts", "listContexts", "All contexts.", OFFSET, LIMIT, answer=STRINGS),
)

OPERATION: tuple[Operation, ...] = (
    Operation("GET", "/health", "health", "The process answers.", "operation", answer="Status"),
    Operation("GET", "/ready", "ready", "The database answers too.", "operation", answer="Status"),
    Operation("GET", "/metrics", "metrics", "Counters for Prometheus.", "operation", media_type="text/plain"),
)

OPERATIONS: tuple[Operation, ...] = (*CONTRACTS, *EVOLUTION, *SUBJECTS, *ADMINISTRATION, *OPERATION)
