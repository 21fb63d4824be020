"""The JSON format: schemas in JSON Schema, payloads in JSON."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from dragoman.core.contract import Incompatibility
from dragoman.core.errors import ConfigurationError
from dragoman.core.format import Codec, ParsedSchema, Policy
from dragoman.formats.json.codec import codec
from dragoman.formats.json.compare.comparison import Reason, compare
from dragoman.formats.json.compare.counterexample import CounterExamples
from dragoman.formats.json.defaults import fill
from dragoman.formats.json.description import describe_schema
from dragoman.formats.json.inference.infer import infer
from dragoman.formats.json.model import Model
from dragoman.formats.json.parsed import JsonSchema, parse
from dragoman.formats.json.schema_of import schema_text
from dragoman.schema.building import class_of
from dragoman.schema.records import describe

MAX_EXAMPLES = 20


class JsonFormat:
    """Drafts 4, 6, 7, 2019-09 and 2020-12, by ``$schema``; 7 for a schema that does not say."""

    schema_type = "JSON"

    def parse(self, text: str, references: Mapping[str, ParsedSchema] | None = None) -> JsonSchema:
        return parse(text, references)

    def incompatibilities(
        self, reader: ParsedSchema, writer: ParsedSchema, policy: Policy = Policy.STRICT
    ) -> Sequence[Incompatibility]:
        new, old = _own(reader), _own(writer)
        exact = policy is Policy.EXACT
        models = Model(new.linked, exact), Model(old.linked, exact)
        reasons = compare(*models, policy)
        examples = CounterExamples(models[1], partial(_shows, new, old))
        return tuple(
            _incompatibility(reason, new, old, examples if number < MAX_EXAMPLES else None)
            for number, reason in enumerate(reasons)
        )

    def codec(
        self, writer: ParsedSchema, reader: ParsedSchema | None = None, cls: type | None = None
    ) -> Codec:
        return codec(_own(writer), None if reader is None else _own(reader), cls)

    def schema_of(self, cls: type) -> str:
        described = describe(cls)
        if self.schema_type not in described.texts:
            described.texts[self.schema_type] = schema_text(described)
        return described.texts[self.schema_type]

    def infer(self, documents: Iterable[Any], name: str = "Record") -> str:
        """The text of a schema that all the documents fit. Only JSON can be learnt from without a schema."""
        return infer(documents, name)

    def record_class(self, schema: ParsedSchema) -> type:
        return class_of(describe_schema(_own(schema)))


def _incompatibility(
    reason: Reason, reader: JsonSchema, writer: JsonSchema, examples: CounterExamples | None
) -> Incompatibility:
    difference = reason.difference
    return Incompatibility(
        rule=difference.rule,
        message=difference.message,
        reader_path=reader.linked.shown(difference.reader),
        writer_path=writer.linked.shown(difference.writer),
        counterexample=examples.of(reason) if examples else None,
    )


def _shows(reader: JsonSchema, writer: JsonSchema, document: Any) -> bool:
    """Whether a document of the writer cannot be read, defaults filled in."""
    if not writer.validator.is_valid(document):
        return False
    if reader.validator.is_valid(document):
        return False
    if reader.defaults is None:
        return True
    filled = copy.deepcopy(document)
    fill(reader.defaults, filled, optional=False)
    return not reader.validator.is_valid(filled)


def _own(schema: ParsedSchema) -> JsonSchema:
    if isinstance(schema, JsonSchema):
        return schema
    raise ConfigurationError(
        f"{type(schema).__name__} is not a schema of the JSON format.", next="Parse it with JsonFormat first."
    )
