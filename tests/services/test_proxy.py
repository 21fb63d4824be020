"""The proxy itself: what it cuts is cut, what it holds back arrives later."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from dragoman.testing.proxy import Proxy

PATIENCE = 60.0


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that says again whatever it is told."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            try:
                while chunk := connection.recv(4096):
                    connection.sendall(chunk)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield f"echo://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE)


def say(connection: socket.socket, what: bytes) -> bytes:
    connection.sendall(what)
    return hear(connection, len(what))


def hear(connection: socket.socket, size: int) -> bytes:
    heard = b""
    while len(heard) < size and (chunk := connection.recv(size - len(heard))):
        heard += chunk
    return heard


def has_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_bytes_pass_in_both_directions(echo: str) -> None:
    with Proxy(echo) as proxy, connect(proxy) as connection:
        large = bytes(range(256)) * 2000
        assert say(connection, b"hello") == b"hello"
        sending = threading.Thread(target=connection.sendall, args=(large,))
        sending.start()
        assert hear(connection, len(large)) == large
        sending.join()


def test_a_cut_ends_connections_old_and_new_until_it_is_restored(echo: str) -> None:
    with Proxy(echo) as proxy, connect(proxy) as before:
        assert say(before, b"a") == b"a"
        proxy.cut()
        assert has_ended(before)
        with connect(proxy) as meanwhile:
            assert has_ended(meanwhile)
        proxy.restore()
        with connect(proxy) as after:
            assert say(after, b"b") == b"b"


def test_dropped_connections_may_come_back_at_once(echo: str) -> None:
    with Proxy(echo) as proxy, connect(proxy) as before:
        assert say(before, b"a") == b"a"
        proxy.drop()
        assert has_ended(before)
        with connect(proxy) as after:
            assert say(after, b"b") == b"b"


def test_what_a_stall_holds_back_arrives_afterwards(echo: str) -> None:
    with Proxy(echo) as proxy, connect(proxy) as connection:
        assert say(connection, b"a") == b"a"
        proxy.stall()
        connection.sendall(b"later")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(PATIENCE)
        proxy.restore()
        assert hear(connection, 5) == b"later"


def test_a_slow_network_holds_each_piece_up(echo: str) -> None:
    with Proxy(echo) as proxy, connect(proxy) as connection:
        proxy.slow(3600.0)
        connection.sendall(b"later")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(PATIENCE)
        proxy.restore()
        assert hear(connection, 5) == b"later"
        proxy.slow(0.01)
        assert say(connection, b"a") == b"a"


def test_a_slow_network_can_be_closed_at_once(echo: str) -> None:
    with Proxy(echo) as proxy, connect(proxy) as connection:
        proxy.slow(3600.0)
        connection.sendall(b"never")


def test_the_url_leads_through_the_proxy_with_all_else_as_it_was() -> None:
    proxy = Proxy("rabbitmq://guest:secret@127.0.0.1:5672/vhost?heartbeat=5", port=1234)
    assert proxy.url == "rabbitmq://guest:secret@127.0.0.1:1234/vhost?heartbeat=5"
    assert Proxy("redis://localhost:6379", port=7).url == "redis://127.0.0.1:7"


def test_a_url_without_a_port_cannot_be_proxied() -> None:
    with pytest.raises(ValueError, match="host and port"):
        Proxy("kafka://localhost")
