"""AsyncAPI documents, 2.x and 3.x, of a whole API or of one of its endpoints."""

from __future__ import annotations

import json
from typing import Any

from dragoman.core.errors import ConfigurationError
from dragoman.language.generators import yaml
from dragoman.language.generators.asyncapi import parts, v2, v3
from dragoman.language.generators.asyncapi.describe import root_extensions
from dragoman.language.generators.asyncapi.view import exchanges
from dragoman.language.model import Model

SPECS = ("2.0.0", "2.6.0", "3.0.0", "3.1.0")
__all__ = ["SPECS", "generate", "render"]


def generate(model: Model, spec: str = "3.0.0", endpoint: str | None = None) -> dict[str, Any]:
    """The document as plain values.

    Without an endpoint it speaks for the API: what a channel produces the application sends. With one, it
    speaks for that endpoint, and holds only what that endpoint uses.
    """
    if spec not in SPECS:
        raise ConfigurationError(
            f"AsyncAPI {spec} is not generated.", code="language.spec", next=f"Choose: {', '.join(SPECS)}."
        )
    found = exchanges(model, endpoint)
    used = list(model.servers)
    if endpoint is not None:
        used = [name for name in used if any(name in parts.servers_of(model, each) for each in found)]
    writer = v2 if spec.startswith("2.") else v3
    head = {"asyncapi": spec, "info": parts.info(model, model.endpoints[endpoint] if endpoint else None)}
    extensions = root_extensions(model) if endpoint is None else {}
    body: dict[str, Any] = writer.document(model, spec, found, used)
    return head | body | extensions


def render(document: dict[str, Any], form: str = "yaml") -> str:
    """The document as text: ``yaml`` or ``json``."""
    if form == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return yaml.dump(document)
