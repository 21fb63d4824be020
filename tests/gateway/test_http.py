"""The gateway over HTTP: statuses, headers, limits, other origins, TLS."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dragoman.core.errors import BrokerUnavailable, ConfigurationError
from dragoman.gateway.envelope import Envelope, collection, datum, from_json, to_json
from dragoman.gateway.http.app import HttpOptions
from dragoman.gateway.http.server import Server, ServerOptions, listen
from dragoman.gateway.limits import EnvelopeLimits
from dragoman.gateway.rates import Rate
from tests.gateway.kit import answer, ask, inside, options
from tests.gateway.test_drop_off import changed
from tests.registry.test_rights import self_signed

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    given = options(limits=EnvelopeLimits(bytes=20_000))
    http = HttpOptions(origins=("https://app.example",), body_seconds=60.0)
    with Server(ServerOptions(gateway=given, http=http, port=0)) as running:
        yield running


def post(server: Server, path: str, envelope: Envelope | bytes, **headers: str) -> httpx.Response:
    body = envelope if isinstance(envelope, bytes) else to_json(envelope)
    return httpx.post(server.url + path, content=body, headers={**JSON, **headers}, timeout=60.0)


def in_gateway(server: Server, work):
    """Do something in the loop of the server's thread."""
    loop = next(iter(server.gateway.client._run.consumers))._task.get_loop()
    return asyncio.run_coroutine_threadsafe(work, loop).result(60)


def test_a_request_is_dropped_off_and_its_response_collected(server: Server) -> None:
    asked = ask(data=[datum("share", "ACME")])
    dropped = post(server, "/drop-off", asked)
    assert dropped.status_code == 202
    assert dropped.headers["location"] == "/collection"
    assert dropped.json()["requestId"] == asked.client.request_id
    assert dropped.json()["collectionPoint"] == "service.collection"
    nothing = post(server, "/collection", collection(asked))
    assert (nothing.status_code, nothing.content) == (204, b"")

    async def reply() -> None:
        for arrived in await inside(server.gateway):
            await answer(server.gateway, arrived.envelope, [datum("change", "1.5")])

    in_gateway(server, reply())
    found = post(server, "/collection?wait=20", collection(asked))
    assert found.status_code == 200
    assert found.headers["content-type"] == "application/json"
    assert found.headers["cache-control"] == "no-store"
    assert from_json(found.content).text("change") == "1.5"


def test_an_answer_that_comes_later_is_waited_for(server: Server) -> None:
    asked = ask()
    assert post(server, "/drop-off", asked).status_code == 202

    async def reply_when_somebody_waits() -> None:
        while not len(server.gateway.collection.waiting):
            await asyncio.sleep(0.01)
        for arrived in await inside(server.gateway):
            await answer(server.gateway, arrived.envelope, [])

    loop = next(iter(server.gateway.client._run.consumers))._task.get_loop()
    replying = asyncio.run_coroutine_threadsafe(reply_when_somebody_waits(), loop)
    assert post(server, "/collection?wait=20", collection(asked)).status_code == 200
    replying.result(60)


def test_who_leaves_while_waiting_takes_nothing_along(server: Server) -> None:
    asked = ask()
    post(server, "/drop-off", asked)
    body = to_json(collection(asked))
    host, port = server.url.removeprefix("http://").split(":")

    async def until_waiting(count: int) -> None:
        async with asyncio.timeout(60):
            while len(server.gateway.collection.waiting) != count:
                await asyncio.sleep(0.01)

    async def reply() -> None:
        for arrived in await inside(server.gateway):
            await answer(server.gateway, arrived.envelope, [])

    with socket.create_connection((host, int(port)), timeout=60) as connection:
        head = f"POST /collection?wait=30 HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
        connection.sendall(f"{head}content-type: application/json\r\n\r\n".encode() + body)
        in_gateway(server, until_waiting(1))
    in_gateway(server, until_waiting(0))
    in_gateway(server, reply())
    assert post(server, "/collection", collection(asked)).status_code == 200


def test_refusals_are_alike_whatever_was_wrong(server: Server) -> None:
    answers = [
        post(server, "/drop-off", each)
        for each in (
            changed(ask(), "destination", resource="service.dbread"),
            ask("salary"),
            ask(token="no.such.token"),
            ask(token=""),
            ask(security="9"),
        )
    ]
    assert {each.status_code for each in answers} == {403}
    assert len({each.content for each in answers}) == 1
    assert answers[0].json()["error"] == "gateway.refused"


def test_a_wrong_token_collects_as_nothing_there(server: Server) -> None:
    asked = ask()
    for shown in (collection(asked), collection(asked, token="no.such.token"), collection(asked, token="")):
        found = post(server, "/collection", shown)
        assert (found.status_code, found.content) == (204, b"")


@pytest.mark.parametrize(
    ("status", "code", "body", "headers"),
    [
        (400, "gateway.envelope.json", b"{", JSON),
        (400, "gateway.envelope.shape", b"{}", JSON),
        (400, "gateway.envelope.json", b"", JSON),
        (400, "gateway.envelope.json", b"\xff\xfe", JSON),
        (413, "gateway.envelope.too-large", b" " * 20_001, JSON),
        (415, "gateway.media-type", b"{}", {}),
        (415, "gateway.media-type", b"{}", {"content-type": "text/plain"}),
    ],
)
def test_what_cannot_be_read_is_told(
    server: Server, status: int, code: str, body: bytes, headers: dict[str, str]
) -> None:
    for path in ("/drop-off", "/collection"):
        found = httpx.post(server.url + path, content=body, headers=headers, timeout=60.0)
        assert (found.status_code, found.json()["error"]) == (status, code)


def test_a_body_in_pieces_is_bounded(server: Server) -> None:
    def large() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    found = httpx.post(f"{server.url}/drop-off", content=large(), headers=JSON, timeout=60.0)
    assert found.status_code == 413


@pytest.mark.parametrize("part", [b"", b"{"])
def test_a_body_that_does_not_come_is_given_up(part: bytes) -> None:
    http_options = HttpOptions(body_seconds=0.1)
    with Server(ServerOptions(gateway=options(), http=http_options, port=0)) as server:
        assert _half_a_request(server, part) == 408


def test_a_body_that_the_gateway_does_not_read_is_given_up_too() -> None:
    http_options = HttpOptions(body_seconds=0.1)
    with Server(ServerOptions(gateway=options(), http=http_options, port=0)) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
            answer = b"".join(iter(lambda: connection.recv(10_000), b""))
            assert answer.startswith(b"HTTP/1.1 404 ")
            assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("part", [b"", b"POST /drop-off HTTP/1.1\r\nhost: x\r\n"])
def test_a_head_that_does_not_come_is_given_up(part: bytes) -> None:
    http_options = HttpOptions(head_seconds=0.1)
    with Server(ServerOptions(gateway=options(), http=http_options, port=0)) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(part)
            assert connection.recv(100) == b""


def test_a_head_without_end_is_cut_off(server: Server) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(b"POST /drop-off HTTP/1.1\r\nhost: x\r\n")
            for _ in range(10_000):
                connection.sendall(b"a: " + b"x" * 1000 + b"\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"202" not in connection.recv(100)
    assert httpx.get(f"{server.url}/health", timeout=60.0).status_code == 200


def test_a_connection_serves_many_requests(server: Server) -> None:
    with httpx.Client(base_url=server.url, timeout=60.0) as web:
        for _ in range(3):
            assert web.post("/drop-off", content=to_json(ask()), headers=JSON).status_code == 202
            assert web.get("/health").status_code == 200


def _half_a_request(server: Server, part: bytes) -> int:
    host = server.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.putrequest("POST", "/drop-off")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", "100")
    connection.endheaders(part)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("wait", ["x", "-1", "nan", "inf", ""])
def test_how_long_to_wait_is_a_number(server: Server, wait: str) -> None:
    found = post(server, f"/collection?wait={wait}", collection(ask()))
    assert (found.status_code, found.json()["error"]) == (400, "gateway.envelope.wait")


def test_other_paths_and_methods_do_not_exist(server: Server) -> None:
    assert httpx.get(f"{server.url}/", timeout=60.0).status_code == 404
    assert httpx.post(f"{server.url}/drop-off/x", timeout=60.0).status_code == 404
    assert httpx.get(f"{server.url}/drop-off", timeout=60.0).headers["allow"] == "POST, OPTIONS"
    assert httpx.post(f"{server.url}/health", timeout=60.0).status_code == 405


def test_pages_of_named_origins_may_call_and_others_not(server: Server) -> None:
    asked = ask()
    ours = post(server, "/drop-off", asked, origin="https://app.example")
    others = post(server, "/drop-off", asked, origin="https://evil.example")
    assert ours.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-origin" not in others.headers
    assert "origin" in ours.headers["vary"]
    first = httpx.options(f"{server.url}/drop-off", headers={"origin": "https://app.example"})
    assert first.headers["access-control-allow-methods"] == "POST"
    stranger = httpx.options(f"{server.url}/drop-off", headers={"origin": "https://evil.example"})
    assert "access-control-allow-methods" not in stranger.headers


def test_while_the_broker_is_away_the_client_is_told_when_to_come_again(server: Server) -> None:
    broker = server.gateway.client.broker
    publish, asked = broker.publish, ask()

    async def fails(*_: object) -> None:
        raise BrokerUnavailable("away")

    broker.publish = fails
    try:
        away = post(server, "/drop-off", asked)
    finally:
        broker.publish = publish
    assert (away.status_code, away.json()["error"]) == (503, "gateway.broker-away")
    assert int(away.headers["retry-after"]) >= 1
    assert post(server, "/drop-off", asked).status_code == 202


def test_health_readiness_and_metrics_are_served(server: Server) -> None:
    assert httpx.get(f"{server.url}/health", timeout=60.0).json() == {"status": "OK"}
    assert httpx.get(f"{server.url}/ready", timeout=60.0).status_code == 200
    post(server, "/drop-off", ask("salary"))
    text = httpx.get(f"{server.url}/metrics", timeout=60.0).text
    assert 'dragoman_gateway_events_total{event="refused",code="gateway.refused"}' in text
    assert 'dragoman_gateway_requests_total{path="/drop-off",status="403"}' in text
    assert "dragoman_gateway_waiting_collections 0" in text


def test_who_comes_too_often_is_told_when_to_come_again() -> None:
    with Server(ServerOptions(gateway=options(peer_rate=Rate(0.01, 1)), port=0)) as server:
        assert post(server, "/drop-off", ask()).status_code == 202
        again = post(server, "/drop-off", ask())
        assert again.status_code == 429
        assert 1 <= int(again.headers["retry-after"]) <= 100


def test_half_open_handshakes_keep_nobody_out(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    patient = HttpOptions(head_seconds=3600.0)
    given = ServerOptions(gateway=options(), http=patient, port=0, certificate=str(certificate), key=str(key))
    running = Server(given)
    running._running.config.http.most = 3
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running)
        host, port = server.url.removeprefix("https://").split(":")
        half = [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=60)) for _ in range(20)
        ]
        trusted = ssl.create_default_context(cafile=str(certificate))
        assert httpx.get(f"{server.url}/health", verify=trusted, timeout=60.0).status_code == 200
        for connection in half[:17]:
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""


def test_tls_is_spoken_with_a_certificate(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    given = ServerOptions(gateway=options(), port=0, certificate=str(certificate), key=str(key))
    with Server(given) as server:
        trusted = ssl.create_default_context(cafile=str(certificate))
        dropped = httpx.post(
            f"{server.url}/drop-off", content=to_json(ask()), headers=JSON, verify=trusted, timeout=60.0
        )
        assert server.url.startswith("https://")
        assert dropped.status_code == 202


@pytest.mark.parametrize(("behind_proxy", "status"), [(True, 202), (False, 429)])
def test_only_a_proxy_may_say_where_requests_come_from(behind_proxy: bool, status: int) -> None:
    gateway = options(peer_rate=Rate(0.001, 1))
    with Server(ServerOptions(gateway=gateway, port=0, behind_proxy=behind_proxy)) as server:
        for address in ("192.0.2.1", "192.0.2.2"):
            answered = post(server, "/drop-off", ask(), **{"x-forwarded-for": address})
        assert answered.status_code == status


def test_tokens_are_not_taken_from_the_open_network_by_accident() -> None:
    with pytest.raises(ConfigurationError, match="clear"):
        listen(ServerOptions(gateway=options(), host="0.0.0.0", port=0))
    listen(ServerOptions(gateway=options(), host="0.0.0.0", port=0, behind_proxy=True)).close()


def test_a_gateway_whose_store_cannot_be_used_does_not_start() -> None:
    server = Server(ServerOptions(gateway=options(store="redis://127.0.0.1:1/0"), port=0))
    with pytest.raises(ConfigurationError, match="did not start"), server:
        pass


def test_the_openapi_document_is_served(server: Server) -> None:
    found = httpx.get(f"{server.url}/openapi.json", timeout=60.0).json()
    assert set(found["paths"]) == {"/drop-off", "/collection", "/health", "/ready", "/metrics"}
    assert json.dumps(found)
