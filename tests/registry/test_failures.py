"""What nobody foresaw: answered, and told once, without what was sent or by what right."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest
from tests.registry.schemas import ORDER

from dragoman.registry import RegistryService
from dragoman.registry.http import authenticate
from dragoman.registry.http.logs import JsonLines
from dragoman.registry.http.server import Server, ServerOptions


def broken(*_: Any, **__: Any) -> Any:
    try:
        raise KeyError("a-payload")
    except KeyError as error:
        raise RuntimeError("cannot store a-payload for a-token") from error


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Everything of some weight that any logger of the process was given, as the server writes it."""
    weighty = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return [json.loads(JsonLines().format(record)) for record in weighty]


@pytest.mark.parametrize(
    ("credentials", "place"),
    [(False, (RegistryService, "submit")), (True, (authenticate, "recognise"))],
    ids=["behind the door", "at the door"],
)
def test_a_failure_is_told_once_and_without_what_was_sent(
    credentials: bool,
    place: tuple[Any, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(*place, broken)
    with Server(ServerOptions(store="sqlite://:memory:", port=0, credentials=credentials)) as server:
        url, sent = f"{server.url}/subjects/orders-value/versions", {"schema": ORDER.text}
        answer = httpx.post(url, json=sent, auth=("ada", "a-token"))
    assert (answer.status_code, answer.json()["error_code"]) == (500, 50001)
    (line,) = told(caplog)
    assert (line["level"], line["message"]) == ("error", "request failed")
    assert (line["method"], line["path"]) == ("POST", "/subjects/orders-value/versions")
    assert (line["error"], line["cause"]) == ("RuntimeError", "KeyError")
    assert line["stack"][-1].endswith(" broken")
    assert "a-token" not in caplog.text and "a-payload" not in caplog.text
