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
from dragoman.registry.http.logs import JsonLines, Plain
from dragoman.registry.http.server import Server, ServerOptions
from dragoman.registry.http.serving import url_of


def broken(*_: Any, **__: Any) -> Any:
    try:
        raise KeyError("a-payload")
    except KeyError as error:
        raise RuntimeError("cannot store a-payload for a-token") from error


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("gateway.refused", "gateway.refused"),
        ("ACME/1-2:3", "ACME/1-2:3"),
        (7, "7"),
        ("", '""'),
        ("a b", '"a b"'),
        ("x client=root", '"x client=root"'),
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        ("a\n12:00:00 info accepted", '"a\\n12:00:00 info accepted"'),
        ("\x1b[2J", '"\\u001b[2J"'),
        ("a\u2028b", '"a\\u2028b"'),
        ("\x7f", '"\\u007f"'),
        ("naïve", "naïve"),
    ],
)
def test_a_value_in_a_text_log_cannot_be_taken_for_anything_else(value: object, shown: str) -> None:
    record = logging.makeLogRecord({"msg": "refused %s", "args": ("a\nb",), "client": value, "after": 1})
    assert Plain().format(record).endswith(f"refused a\\nb client={shown} after=1")


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert url_of("::1", 8081, tls=False) == "http://[::1]:8081"
    assert url_of("127.0.0.1", 443, tls=True) == "https://127.0.0.1:443"


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
