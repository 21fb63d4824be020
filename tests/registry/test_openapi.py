"""The OpenAPI document and the server agree, whatever is sent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CheckFunction, load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dragoman.registry.http.openapi import document
from dragoman.registry.http.server import Server, ServerOptions

CHECKS: list[CheckFunction] = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
OPERATIONS = [(path, method.upper()) for path, methods in document()["paths"].items() for method in methods]


@pytest.fixture(scope="module")
def live() -> Iterator[Server]:
    with Server(ServerOptions(store="sqlite://:memory:", port=0)) as running:
        yield running


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_operation_answers_as_documented(live: Server, path: str, method: str) -> None:
    load_all_checks()
    operation = schemathesis.openapi.from_dict(document())[path][method]

    @settings(
        max_examples=12,
        phases=[Phase.explicit, Phase.generate],
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def probe(case: schemathesis.Case) -> None:
        answer = case.call(base_url=live.url, timeout=60.0)
        case.validate_response(answer, checks=CHECKS)

    probe()
