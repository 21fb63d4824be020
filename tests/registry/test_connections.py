"""Connections and heads of requests have limits, and who sends nothing keeps nobody else out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.registry.test_rights import self_signed

from dragoman.registry.http import serving
from dragoman.registry.http.addresses import Proxies
from dragoman.registry.http.connections import BoundedProtocol, ConnectionLimits, Pace
from dragoman.registry.http.server import Server, ServerOptions, listen

HALF = b"GET /health HTTP/1.1\r\nhost: x\r\n"
WHOLE = HALF + b"\r\n"


def running(limits: ConnectionLimits, **more: str) -> Server:
    return Server(ServerOptions(store="sqlite://:memory:", port=0, connections=limits, **more))


@contextlib.contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    host, port = server.url.partition("://")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=50) as connection:
        yield connection


def answer_to(connection: socket.socket, request: bytes) -> bytes:
    """What comes for one request, or until the connection ends."""
    connection.sendall(request)
    found = b""
    while not found.endswith(b'"up"}'):
        part = connection.recv(10_000)
        if not part:
            break
        found += part
    return found


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side closes it, and says nothing. Waits for that."""
    with contextlib.suppress(ConnectionResetError):
        return connection.recv(100) == b""
    return True


@pytest.mark.parametrize("part", [b"", b"GET", HALF, HALF + b"a: " + b"b" * 1000, b"\r\n"])
def test_a_head_that_does_not_come_is_given_up(part: bytes) -> None:
    with running(ConnectionLimits(head_s=0.1)) as server, connected(server) as connection:
        connection.sendall(part)
        assert is_closed(connection)


@pytest.mark.parametrize("part", [b"GET", HALF, b"\r\n"])
def test_the_next_head_of_a_connection_is_given_up_too(part: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(ConnectionLimits()) as server, connected(server) as connection:
        assert answer_to(connection, WHOLE).endswith(b'"up"}')
        # The first head had its time, so that it does not matter how fast this test runs.
        monkeypatch.setattr(BoundedProtocol, "limits", ConnectionLimits(head_s=0.1), raising=False)
        monkeypatch.delattr(server._running.config.http_protocol_class, "limits")
        connection.sendall(part)
        assert is_closed(connection)


def test_a_head_that_comes_byte_by_byte_gets_no_more_time() -> None:
    with running(ConnectionLimits(head_s=0.1)) as server, connected(server) as connection:
        connection.settimeout(0.02)
        with contextlib.suppress(ConnectionError):
            for _ in range(2000):
                connection.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    if connection.recv(100) == b"":
                        return
            pytest.fail("the server still waits for the head")


def test_a_connection_without_requests_is_closed() -> None:
    with running(ConnectionLimits(idle_s=1)) as server, connected(server) as connection:
        assert answer_to(connection, WHOLE).endswith(b'"up"}')
        assert is_closed(connection)


def test_a_handshake_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    limits = ConnectionLimits(head_s=0.1)
    with (
        running(limits, certificate=str(certificate), key=str(key)) as server,
        connected(server) as connection,
    ):
        assert is_closed(connection)


def test_half_open_connections_keep_nobody_out() -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(ConnectionLimits(head_s=3600, connections=10)))
        patient = stack.enter_context(connected(server))
        assert answer_to(patient, WHOLE).endswith(b'"up"}')
        half = []
        for _ in range(60):
            connection = stack.enter_context(connected(server))
            connection.sendall(HALF)
            half.append(connection)
        for _ in range(5):
            assert httpx.get(f"{server.url}/health", timeout=50).status_code == 200
        # Those that have waited longest had to go. Who had a request before was left alone.
        assert all(is_closed(connection) for connection in half[:45])
        assert answer_to(patient, WHOLE).endswith(b'"up"}')


@pytest.fixture(params=["uvloop", "asyncio"])
def with_tls(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """A certificate for a server, which runs on this event loop."""
    if request.param == "asyncio":
        monkeypatch.setattr(uvicorn.Config, "get_loop_factory", lambda _: asyncio.new_event_loop)
    certificate, key = self_signed(tmp_path)
    return {"certificate": str(certificate), "key": str(key)}


def healthy(server: Server, with_tls: dict[str, str]) -> bool:
    trusted = ssl.create_default_context(cafile=with_tls["certificate"])
    return httpx.get(f"{server.url}/health", timeout=50, verify=trusted).status_code == 200


@contextlib.contextmanager
def inside_tls(server: Server, with_tls: dict[str, str]) -> Iterator[ssl.SSLSocket]:
    trusted = ssl.create_default_context(cafile=with_tls["certificate"])
    with (
        connected(server) as plain,
        trusted.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=True) as connection,
    ):
        yield connection


@pytest.mark.parametrize("part", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"])
def test_half_open_handshakes_keep_nobody_out(with_tls: dict[str, str], part: bytes) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(ConnectionLimits(head_s=3600, connections=10), **with_tls))
        patient = stack.enter_context(inside_tls(server, with_tls))
        assert answer_to(patient, WHOLE).endswith(b'"up"}')
        half = []
        for _ in range(60):
            connection = stack.enter_context(connected(server))
            connection.sendall(part)
            half.append(connection)
        for _ in range(5):
            assert healthy(server, with_tls)
        assert all(is_closed(connection) for connection in half[:45])
        assert answer_to(patient, WHOLE).endswith(b'"up"}')


def test_handshakes_that_fail_are_counted_no_longer(with_tls: dict[str, str]) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(ConnectionLimits(connections=3, head_s=3600), **with_tls))
        patient = stack.enter_context(inside_tls(server, with_tls))
        assert answer_to(patient, WHOLE).endswith(b'"up"}')
        for _ in range(20):
            with connected(server) as plain:
                plain.sendall(WHOLE)
                with contextlib.suppress(ConnectionError):
                    while plain.recv(1000):
                        pass
            assert healthy(server, with_tls)
        assert answer_to(patient, WHOLE).endswith(b'"up"}')


def test_connections_that_the_other_side_does_not_close_keep_nobody_out(with_tls: dict[str, str]) -> None:
    """The server has closed them by TLS, which the other side should confirm."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(ConnectionLimits(connections=5, head_s=3600), **with_tls))
        for _ in range(20):
            connection = stack.enter_context(inside_tls(server, with_tls))
            assert answer_to(connection, HALF + b"connection: close\r\n\r\n").endswith(b'"up"}')


def ends(connection: ssl.SSLSocket) -> bool:
    """Whether the server closes the socket after TLS, without an answer from here. Waits for that.

    A loop by itself waits 30 seconds for that answer.
    """
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(10_000):
            pass
    waiting = select.poll()
    waiting.register(connection, select.POLLRDHUP)
    return bool(waiting.poll(20_000))


@pytest.mark.parametrize("part", [b"", b"GET", HALF, HALF + b"a: " + b"b" * 1000])
def test_a_head_inside_tls_that_does_not_come_holds_no_socket(with_tls: dict[str, str], part: bytes) -> None:
    """Whether or not the other side closes the connection too."""
    with (
        running(ConnectionLimits(head_s=0.5), **with_tls) as server,
        inside_tls(server, with_tls) as connection,
    ):
        connection.sendall(part)
        assert ends(connection)


@pytest.mark.parametrize(
    "requests", [WHOLE, HALF + b"connection: close\r\n\r\n", b"nonsense\r\n\r\n", WHOLE + b"nonsense\r\n\r\n"]
)
def test_a_connection_that_was_closed_by_tls_holds_no_socket(
    with_tls: dict[str, str], requests: bytes
) -> None:
    limits = ConnectionLimits(idle_s=1, body_s=1)
    with running(limits, **with_tls) as server, inside_tls(server, with_tls) as connection:
        connection.sendall(requests)
        assert ends(connection)


def test_an_answer_inside_tls_that_ends_the_connection_may_be_read_slowly(
    with_tls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the limit for answers counts, not the time that the loop gives to the end of TLS."""
    monkeypatch.setattr("asyncio.constants.SSL_SHUTDOWN_TIMEOUT", 0.1)
    limits = ConnectionLimits(answer_s=3600, body_s=0.4, head_s=1)
    trusted = ssl.create_default_context(cafile=with_tls["certificate"])
    get = b"GET /contracts/orders-value/versions/1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with running(limits, **with_tls) as server:
        body = {"schema": '"string"', "metadata": {"properties": {"a": "b" * 4_000_000}}}
        with httpx.Client(verify=trusted, timeout=50) as client:
            client.post(f"{server.url}/contracts/orders-value", json=body).raise_for_status()
        with inside_tls(server, with_tls) as connection:
            connection.sendall(get)
            first = connection.recv(1000)
            # Another connection is given up after a longer time than the loop's.
            with inside_tls(server, with_tls) as other:
                assert is_closed(other)
            whole = first + b"".join(iter(lambda: connection.recv(1_000_000), b""))
            assert len(whole) > 4_000_000


def test_idle_connections_inside_tls_keep_nobody_out(with_tls: dict[str, str]) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(ConnectionLimits(connections=5, idle_s=3600), **with_tls))
        for _ in range(20):
            connection = stack.enter_context(inside_tls(server, with_tls))
            assert answer_to(connection, WHOLE).endswith(b'"up"}')


def test_a_server_with_half_open_handshakes_stops(with_tls: dict[str, str]) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(ConnectionLimits(head_s=3600), **with_tls))
        half = [stack.enter_context(connected(server)) for _ in range(5)]
        assert healthy(server, with_tls)
        server.close()
        assert all(is_closed(connection) for connection in half)


def test_idle_connections_keep_nobody_out() -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(ConnectionLimits(connections=5, idle_s=3600)))
        for _ in range(20):
            connection = stack.enter_context(connected(server))
            assert answer_to(connection, WHOLE).endswith(b'"up"}')


def test_a_connection_too_many_is_told() -> None:
    """When all others are at work."""
    upload = b"POST /contracts/x HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n"
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(ConnectionLimits(connections=2)))
        for _ in range(2):
            busy = stack.enter_context(connected(server))
            busy.sendall(upload)
            assert b"100 Continue" in busy.recv(100)
        more = stack.enter_context(connected(server))
        found = more.recv(1000)
        assert found.startswith(b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n")
        assert is_closed(more)
        busy.close()


CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
POST = b"POST /contracts/orders-value HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
NOWHERE = POST.replace(b"/contracts/orders-value", b"/nowhere")


@pytest.mark.parametrize(
    "part",
    [
        b"content-length: 1000\r\n\r\n",
        b"content-length: 1000\r\n\r\n{",
        b"content-length: 10000000\r\n\r\n" + b" " * 100_000,
        b"transfer-encoding: chunked\r\n\r\n5\r\n     \r\n",
        b"transfer-encoding: chunked\r\n\r\n5\r\n     \r\n0\r\na: b\r\n",
    ],
)
def test_a_body_that_does_not_come_is_given_up(part: bytes) -> None:
    with running(ConnectionLimits(body_s=0.1)) as server:
        for before in (b"", WHOLE):
            with connected(server) as connection:
                if before:
                    answer_to(connection, before)
                found = answer_to(connection, POST + part)
                assert found.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert httpx.get(f"{server.url}/health").status_code == 200


@pytest.mark.parametrize("url", [b"http://a:99999/", b"http://[/", b"http://"])
def test_a_url_that_cannot_be_read_leaves_the_limits_in_force(with_tls: dict[str, str], url: bytes) -> None:
    """Its connection stays until the client closes it, and is looked at as the others are."""
    limits = ConnectionLimits(body_s=0.1, answer_s=0.1)
    with running(limits, **with_tls) as server, inside_tls(server, with_tls) as wrong:
        wrong.sendall(b"GET " + url + b" HTTP/1.1\r\nhost: x\r\n\r\n")
        protocol = server._running.config.http_protocol_class
        assert issubclass(protocol, BoundedProtocol)
        for _ in range(2):
            with inside_tls(server, with_tls) as connection:
                found = answer_to(connection, POST + b"content-length: 1000\r\n\r\n{")
                assert found.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert protocol.next_look is not None


def test_a_body_that_is_not_read_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(ConnectionLimits(body_s=3600, idle_s=3600)) as server, connected(server) as connection:
        connection.sendall(NOWHERE + b"content-length: 1000\r\n\r\n{")
        answer = connection.recv(10_000)
        # The time for the body runs out when there is an answer, however fast this machine is.
        protocol = server._running.config.http_protocol_class
        assert issubclass(protocol, BoundedProtocol)
        monkeypatch.setattr(protocol, "limits", ConnectionLimits(body_s=0.1, idle_s=3600))
        (waiting,) = protocol.sockets
        waiting.loop.call_soon_threadsafe(protocol._look, waiting.loop)
        answer += b"".join(iter(lambda: connection.recv(10_000), b""))
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert answer.count(b"HTTP/1.1 ") == 1


def test_a_body_that_comes_byte_by_byte_gets_no_more_time() -> None:
    with running(ConnectionLimits(body_s=0.1)) as server, connected(server) as connection:
        connection.settimeout(0.02)
        connection.sendall(POST + b"content-length: 10000000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(2000):
                connection.sendall(b" ")
                with contextlib.suppress(TimeoutError):
                    if connection.recv(100):
                        return
            pytest.fail("the server still waits for the body")


def test_a_transfer_that_moves_gets_all_the_time_that_it_needs() -> None:
    pace, least = Pace(), 64 * 1024
    assert not any(pace.is_too_slow(9.0 * at, least * at, 10.0) for at in range(100))
    # It stalls, or nearly.
    assert not pace.is_too_slow(900.0, least * 99 + 1, 10.0)
    assert pace.is_too_slow(901.0, least * 100 - 1, 10.0)
    pace.rest()
    assert not pace.is_too_slow(1000.0, 0, 10.0)
    assert not pace.is_too_slow(1009.0, 0, 10.0)
    assert pace.is_too_slow(1010.0, 0, 10.0)


@contextlib.contextmanager
def deaf(server: Server, requests: bytes) -> Iterator[socket.socket]:
    """A connection that takes nearly nothing of what comes."""
    host, port = server.url.partition("://")[2].split(":")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(50)
        connection.connect((host, int(port)))
        connection.sendall(requests)
        yield connection


def large_answers(server: Server) -> bytes:
    body = {"schema": '"string"', "metadata": {"properties": {"a": "b" * 4_000_000}}}
    assert httpx.post(f"{server.url}/contracts/orders-value", json=body, timeout=50).status_code == 200
    get = b"GET /contracts/orders-value/versions/1 HTTP/1.1\r\nhost: x\r\n%b\r\n"
    return get % b"" + get % b"" + get % b"connection: close\r\n"


def is_reset(connection: socket.socket) -> bool:
    """Whether the other side gives it up, though nothing is read. Waits for that."""
    waiting = select.poll()
    waiting.register(connection, select.POLLRDHUP)
    return bool(waiting.poll(50_000))


def test_an_answer_that_is_not_read_is_given_up() -> None:
    with running(ConnectionLimits(answer_s=0.1, idle_s=3600)) as server:
        requests = large_answers(server)
        for at in range(3):
            with deaf(server, requests[: len(requests) // 3 * (at + 1)]) as connection:
                assert is_reset(connection)
        assert httpx.get(f"{server.url}/health").status_code == 200


def test_an_answer_inside_tls_that_is_not_read_is_given_up(with_tls: dict[str, str]) -> None:
    trusted = ssl.create_default_context(cafile=with_tls["certificate"])
    with running(ConnectionLimits(answer_s=0.1, idle_s=3600), **with_tls) as server:
        body = {"schema": '"string"', "metadata": {"properties": {"a": "b" * 4_000_000}}}
        url = f"{server.url}/contracts/orders-value"
        assert httpx.post(url, json=body, timeout=50, verify=trusted).status_code == 200
        with (
            deaf(server, b"") as plain,
            trusted.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            get = b"GET /contracts/orders-value/versions/1 HTTP/1.1\r\nhost: x\r\n\r\n"
            connection.sendall(get * 3)
            assert is_reset(connection)


def test_connections_have_a_small_send_buffer() -> None:
    """So that it is seen whether a client reads: a large buffer is emptied in large steps."""
    with (
        contextlib.closing(listen(ServerOptions(store="sqlite://:memory:", port=0))) as bound,
        socket.create_connection(bound.getsockname()),
        bound.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 512 * 1024


def test_answers_that_are_read_come_whole() -> None:
    with running(ConnectionLimits()) as server:
        with deaf(server, large_answers(server)) as connection:
            size = 0
            while part := connection.recv(65_536):
                size += len(part)
        assert size > 12_000_000


@pytest.mark.parametrize("work", ["body", "answer", "database"])
def test_a_server_that_stops_closes_what_does_not_end_and_logs_no_stack(
    work: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "_GRACE", 0.2)
    monkeypatch.setattr(serving, "_LAST_GRACE", 0.2)
    begun = threading.Semaphore(0)

    async def hang(*_: object) -> None:
        begun.release()
        await asyncio.Future()

    limits = ConnectionLimits(body_s=3600, answer_s=3600)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(limits))
        requests = large_answers(server)
        opened = []
        for _ in range(3):
            if work == "answer":
                opened.append(stack.enter_context(deaf(server, requests)))
                assert opened[-1].recv(1) == b"H"
            elif work == "database":
                monkeypatch.setattr(server.service.engine, "write", hang)
                opened.append(stack.enter_context(connected(server)))
                body = b'{"schema": "\\"long\\""}'
                opened[-1].sendall(POST + b"content-length: %d\r\n\r\n%b" % (len(body), body))
                assert begun.acquire(timeout=50)
            else:
                opened.append(stack.enter_context(connected(server)))
                opened[-1].sendall(POST + b"content-length: 100\r\nexpect: 100-continue\r\n\r\n")
                assert b"100 Continue" in opened[-1].recv(100)
        server.close()
        assert all(is_reset(connection) for connection in opened)
    assert [record.message for record in caplog.records if record.exc_info] == []
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nhost: x\r\na: " + b"b" * 1_000_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 200_000 + b"\r\n",
        b"GET /health?" + b"b" * 1_000_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: x\r\n" + b"a" * 1_000_000 + b": b\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: x\r\na: " + b"b" * 70_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 200_000,
    ],
)
def test_a_large_head_is_refused(server: Server, head: bytes) -> None:
    for before in (b"", WHOLE):
        with connected(server) as connection:
            if before:
                answer_to(connection, before)
            found = b""
            with contextlib.suppress(ConnectionError):
                connection.sendall(head)
            with contextlib.suppress(ConnectionError):
                while part := connection.recv(10_000):
                    found += part
            assert b"200 OK" not in found or head.startswith(b"POST")
            if found and not head.startswith(b"POST"):
                assert found.startswith(b"HTTP/1.1 431 ")
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_a_header_without_end_is_refused_before_it_ends() -> None:
    with running(ConnectionLimits(head_s=3600)) as server, connected(server) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(HALF + b"a: " + b"b" * 1_000_000)
        with contextlib.suppress(ConnectionError):
            while connection.recv(10_000):
                pass


def test_a_large_head_that_fits_into_what_was_sent_at_once_is_told_why(server: Server) -> None:
    with connected(server) as connection:
        found = answer_to(connection, b"GET /health HTTP/1.1\r\na: " + b"b" * 66_000 + b"\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert b"larger than 65536 bytes" in found


def test_a_usual_head_and_a_large_body_are_accepted(server: Server) -> None:
    headers = {f"x-{number}": "y" * 1000 for number in range(50)}
    body = {"schema": '"string"', "metadata": {"properties": {"a": "b" * 1_000_000}}}
    with httpx.Client(base_url=server.url, headers=headers, timeout=50) as client:
        for _ in range(2):
            assert client.post("/contracts/orders-value", json=body).status_code == 200
            assert client.get("/health").status_code == 200


def test_requests_in_one_packet_are_all_answered(server: Server) -> None:
    body = b"x" * 50_000
    post = b"POST /nothing HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    with connected(server) as connection:
        connection.sendall(post + post + WHOLE[:20])
        assert answer_to(connection, WHOLE[20:]).endswith(b'"up"}')


def test_the_limit_of_connections_leaves_descriptors_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, most in ((1024, 768), (100, 50), (1, 1), (resource.RLIM_INFINITY, 65_536)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert ConnectionLimits().most_connections() == most
        assert ConnectionLimits(connections=7).most_connections() == 7


@pytest.mark.parametrize(
    "endless",
    [
        b"0\r\na: " + b"b" * 1000,
        b"0\r\n" + b"a" * 1000,
        b"0\r\n" + b"a: b\r\n" * 200,
        b"0;" + b"a" * 1000,
        b"5;" + b"a" * 1000,
        b"5\r\n     \r\n0\r\na: " + b"b" * 1000,
    ],
)
@pytest.mark.parametrize("request_head", [POST, NOWHERE])
def test_what_comes_around_chunks_is_bounded(request_head: bytes, endless: bytes) -> None:
    """Trailers and extensions of chunks that do not end. The last part is repeated."""
    limits = ConnectionLimits(head_s=3600, body_s=3600)
    with running(limits) as server, connected(server) as connection:
        connection.sendall(request_head + CHUNKED + endless)
        more, sent = endless[-120:] * 100, 0
        with contextlib.suppress(ConnectionError):
            # The buffers of the kernel take some of it after the server has stopped to read.
            while sent < 100_000_000:
                connection.sendall(more)
                sent += len(more)
        assert sent < 100_000_000
        assert httpx.get(f"{server.url}/health", timeout=50).status_code == 200


def test_trailers_that_are_too_large_are_told_of() -> None:
    with running(ConnectionLimits()) as server, connected(server) as connection:
        found = answer_to(connection, POST + CHUNKED + b"0\r\na: " + b"b" * 66_000 + b"\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 431 ")


def serving_app(app: ASGIApp, limits: ConnectionLimits | None = None) -> serving.ServerThread:
    options = ServerOptions(store="", port=0)
    bound = listen(options)
    made = serving.server(app, options, limits or ConnectionLimits(), Proxies.named())
    made.config.lifespan = "off"
    return serving.ServerThread("app", made, bound)


def test_trailers_do_not_change_a_request_nor_the_next_one() -> None:
    """A proxy may use one connection for the requests of many."""
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            while (await receive()).get("more_body"):
                pass
            seen.append([name for name, _ in scope["headers"]])
            await answer(send)

    trailers = b"0\r\nauthorization: Basic x\r\nx-role: admin\r\n\r\n"
    with serving_app(app) as server, connected(server) as connection:
        for _ in range(2):
            answer_to(connection, b"POST / HTTP/1.1\r\nhost: x\r\n" + CHUNKED + b"1\r\n \r\n" + trailers)
            answer_to(connection, WHOLE)
    assert seen == [[b"host", b"transfer-encoding"], [b"host"]] * 2


class Held:
    """Answers with the path of the request, the first one when the test says so."""

    def __init__(self, begins: bool) -> None:
        self.begun = threading.Event()
        self.go_on = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.began: list[str] = []
        self._begins = begins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        first, path = not self.began, scope["path"]
        self.began.append(path)
        while (await receive()).get("more_body"):
            pass
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
        if first and not self._begins:
            await self._hold()
        await send(start)
        await send({"type": "http.response.body", "body": path[:1].encode(), "more_body": True})
        if first and self._begins:
            await self._hold()
        await send({"type": "http.response.body", "body": path[1:].encode()})

    async def _hold(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.begun.set()
        await self.go_on.wait()

    def release(self) -> None:
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.go_on.set)


def get(path: bytes) -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nhost: x\r\n\r\n"


HEAD = b"POST /9 HTTP/1.1\r\nhost: x\r\n"
REFUSED = {
    "a large header": (HEAD + b"x: " + b"a" * 70_000 + b"\r\n\r\n", 431),
    "a large header without end": (HEAD + b"x: " + b"a" * 1_000_000, 431),
    "many headers": (HEAD + b"x: y\r\n" * 20_000 + b"\r\n", 431),
    "a long URL": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 431),
    "large trailers": (HEAD + CHUNKED + b"0\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", 431),
    "no HTTP": (b"\0\0\0\0\r\n\r\n", 400),
    "a URL that cannot be read": (b"GET http://a:99999/ HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a chunk without size": (HEAD + CHUNKED + b"zz\r\n", 400),
    "two lengths": (HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\n12", 400),
}


@pytest.mark.parametrize("begins", [False, True], ids=["before the answer", "amid the answer"])
@pytest.mark.parametrize("between", [b"", get(b"/2"), get(b"/2") + get(b"/3")], ids=["2nd", "3rd", "4th"])
@pytest.mark.parametrize(("refused", "status"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_comes_after_the_answers_to_earlier_requests(
    refused: bytes, status: int, between: bytes, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests in a row, of which the last is refused while the first is still being carried out."""
    seen = threading.Event()
    refuse = BoundedProtocol.send_400_response

    def noted(self: BoundedProtocol, msg: str) -> None:
        refuse(self, msg)
        seen.set()

    monkeypatch.setattr(BoundedProtocol, "send_400_response", noted)
    app = Held(begins)
    with serving_app(app) as server, connected(server) as connection:
        connection.sendall(get(b"/1"))
        assert app.begun.wait(50)
        with contextlib.suppress(ConnectionError):
            connection.sendall(between + refused)
        if not between and CHUNKED not in refused:
            # Else the server does not read on before the first request is answered.
            assert seen.wait(50)
        app.release()
        found = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(10_000):
                found += part
    paths = [b"/%d" % (number + 1) for number in range(1 + between.count(b"GET"))]
    heads = [part.partition(b" ")[0] for part in found.split(b"HTTP/1.1 ")[1:]]
    assert heads == [b"200"] * len(paths) + [b"%d" % status]
    ends = [part.partition(b"\r\n\r\n")[2] for part in found.split(b"HTTP/1.1 ")[1:]]
    assert ends[:-1] == paths
    assert [path for path in app.began if path != "/9"] == [path.decode() for path in paths]


def test_a_body_that_stalls_after_an_earlier_request_is_given_up_after_its_answer() -> None:
    app = Held(False)
    with serving_app(app, ConnectionLimits(body_s=0.1)) as server, connected(server) as connection:
        connection.sendall(get(b"/1") + HEAD + b"content-length: 1000\r\n\r\n{")
        assert app.begun.wait(50)
        app.release()
        found = b"".join(iter(lambda: connection.recv(10_000), b""))
    assert [part[:3] for part in found.split(b"HTTP/1.1 ")[1:]] == [b"200", b"408"]


def test_no_refusal_follows_an_answer_that_closes_the_connection() -> None:
    app = Held(False)
    with serving_app(app) as server, connected(server) as connection:
        connection.sendall(b"GET /1 HTTP/1.1\r\nconnection: close\r\n\r\n" + REFUSED["many headers"][0])
        assert app.begun.wait(50)
        app.release()
        found = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(10_000):
                found += part
    assert found.count(b"HTTP/1.1 ") <= 1 and b" 431 " not in found


@contextlib.contextmanager
def connected_to_app(
    app: ASGIApp, tls: dict[str, str] | None = None
) -> Iterator[tuple[serving.Uvicorn, socket.socket]]:
    """A server of this application, and a connection to it."""
    options = ServerOptions(store="", port=0, **(tls or {}))
    running = serving.server(app, options, ConnectionLimits(), Proxies.named())
    running.config.lifespan = "off"
    with serving.ServerThread("app", running, listen(options)) as server:
        connection = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=50)
        if tls is not None:
            trusted = ssl.create_default_context(cafile=tls["certificate"])
            connection = trusted.wrap_socket(connection, server_hostname="127.0.0.1")
        with connection:
            yield running, connection


async def answer(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b'"up"}'})


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("pipelined", [1, 3])
@pytest.mark.parametrize("lost", [0, 1, 10])
def test_an_answer_to_a_connection_that_was_just_cut_off_is_dropped_without_a_stack_trace(
    lost: int,
    pipelined: int,
    begun: bool,
    tls: bool,
    with_tls: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Turns of the loop that have passed since then: ``lost``."""
    done = threading.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        protocol.abort_all()
        while lost and protocol.sockets:
            await asyncio.sleep(0)
        for _ in range(lost):
            await asyncio.sleep(0)
        try:
            if begun:
                await send({"type": "http.response.body", "body": b'"up"}'})
            else:
                await answer(send)
        finally:
            done.set()

    with connected_to_app(app, with_tls if tls else None) as (running, connection):
        protocol = cast(type[BoundedProtocol], running.config.http_protocol_class)
        connection.sendall(WHOLE * pipelined)
        assert done.wait(60)
        with contextlib.suppress(OSError):
            while connection.recv(100):
                pass
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("pipelined", [1, 3])
def test_each_request_under_way_is_told_that_its_client_has_left(
    pipelined: int, tls: bool, with_tls: dict[str, str]
) -> None:
    """Also if the client has sent other requests after it."""
    begun, told = threading.Event(), threading.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        told.set()

    with connected_to_app(app, with_tls if tls else None) as (_, connection):
        connection.sendall(WHOLE * pipelined)
        assert begun.wait(60)
        connection.close()
        assert told.wait(60)
