"""Where requests come from: what a proxy says counts only if the proxy is named."""

from __future__ import annotations

import ipaddress
from functools import partial

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.registry.guarding import new_user

from dragoman.core.errors import ConfigurationError
from dragoman.registry.http import authenticate
from dragoman.registry.http.addresses import Forwarded, Proxies, network_of
from dragoman.registry.http.logins import Logins
from dragoman.registry.http.server import Server, ServerOptions, listen
from dragoman.registry.limits import Limits

FOR_ONE = (b"x-forwarded-for", b"1.1.1.1")
PROXIES = "10.0.0.0/8, 192.0.2.7,2001:db8:ffff::/48"


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1,198.51.100.1 , 10.9.9.9, 192.0.2.7", "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("10.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("10.0.0.1", "[2001:db8::1]", "2001:db8::1"),
        ("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "fe80::1%eth0", "fe80::1"),
        ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("2001:db8:ffff::1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "10.0.0.2, 10.0.0.3", "10.0.0.2"),
        # What is no address ends what can be believed.
        ("10.0.0.1", "198.51.100.1, unknown", None),
        ("10.0.0.1", "198.51.100.1, unknown, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "", None),
        ("10.0.0.1", "1" * 60_000, None),
        ("10.0.0.1", "fe80::1%" + "x" * 60_000, None),
        # Not from a proxy.
        ("127.0.0.1", "198.51.100.1", None),
        ("198.51.100.9", "198.51.100.1", None),
        ("", "198.51.100.1", None),
    ],
)
def test_a_client_is_the_last_address_that_is_no_proxy(peer: str, forwarded: str, client: str | None) -> None:
    assert Proxies.read(PROXIES).client(peer, forwarded) == client


addresses = st.one_of(st.ip_addresses(), st.ip_addresses(network="10.0.0.0/8")).map(str)
outsiders = st.ip_addresses(v=4).filter(lambda address: address not in Proxies.read(PROXIES)).map(str)


@given(st.text(max_size=50), outsiders, st.lists(st.ip_addresses(network="10.0.0.0/8").map(str), max_size=5))
def test_what_a_client_writes_into_the_header_changes_nothing(lie: str, client: str, hops: list[str]) -> None:
    proxies = Proxies.read(PROXIES)
    assert proxies.client("10.0.0.1", ",".join([client, *hops])) == client
    assert proxies.client("10.0.0.1", ",".join([lie, client, *hops])) == client


@given(st.one_of(st.text(), st.lists(addresses).map(",".join)))
def test_any_header_gives_an_address_or_nothing(forwarded: str) -> None:
    for proxies in (Proxies.read(PROXIES), Proxies.read("*")):
        found = proxies.client("10.0.0.1", forwarded)
        assert found is None or str(ipaddress.ip_address(found)) == found


def test_with_a_star_whoever_connects_is_a_proxy_but_no_address_in_the_header() -> None:
    assert Proxies.read("*").client("198.51.100.9", "1.1.1.1, 198.51.100.1") == "198.51.100.1"


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.1,*", "10.0.0.0/99", "/tmp/socket"])
def test_names_that_are_no_proxies_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", text)
    with pytest.raises(ConfigurationError, match="FORWARDED_ALLOW_IPS"):
        listen(ServerOptions(store="sqlite://:memory:", port=0))


@pytest.mark.parametrize(
    ("named", "headers", "client", "scheme"),
    [
        ("", [], "10.0.0.1", "http"),
        ("", [(b"x-forwarded-for", b"1.1.1.1"), (b"x-forwarded-proto", b"https")], "10.0.0.1", "http"),
        (
            "10.0.0.1",
            [(b"x-forwarded-for", b"1.1.1.1"), (b"x-forwarded-proto", b"https")],
            "1.1.1.1",
            "https",
        ),
        ("10.0.0.1", [FOR_ONE, (b"x-forwarded-for", b"2.2.2.2")], "2.2.2.2", "http"),
        ("10.0.0.1", [(b"x-forwarded-for", b"\xff"), (b"x-forwarded-proto", b"gopher")], "10.0.0.1", "http"),
    ],
)
async def test_the_application_sees_the_client(
    named: str, headers: list[tuple[bytes, bytes]], client: str, scheme: str
) -> None:
    seen = []

    async def app(scope: object, receive: object, send: object) -> None:
        seen.append(scope)

    scope = {"type": "http", "client": ("10.0.0.1", 5), "scheme": "http", "headers": headers}
    await Forwarded(app, Proxies.read(named))(scope, None, None)  # type: ignore[arg-type]
    assert (seen[0]["client"][0], seen[0]["scheme"]) == (client, scheme)  # type: ignore[index]


@given(st.ip_addresses(v=6), st.integers(0, 2**64 - 1))
def test_a_network_of_ipv6_is_one_customer(address: ipaddress.IPv6Address, host: int) -> None:
    if address.ipv4_mapped is None and int(address) >> 64:
        neighbour = ipaddress.IPv6Address(int(address) >> 64 << 64 | host)
        assert network_of(str(address)) == network_of(str(neighbour))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> ServerOptions:
    """No budget comes back while a test runs."""
    monkeypatch.setattr(authenticate, "Logins", partial(Logins, clock=lambda: 1000.0))
    return ServerOptions(store="sqlite://:memory:", port=0, credentials=True, limits=Limits(logins=2))


def wrong(server: Server, forwarded: str) -> int:
    return httpx.get(
        f"{server.url}/subjects", auth=("ada", "wrong"), headers={"X-Forwarded-For": forwarded}, timeout=60
    ).status_code


def test_who_is_no_proxy_cannot_choose_a_budget_by_a_header(
    small: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    with Server(small) as server:
        new_user(server.service, "ada", "correct horse", "read")
        assert [wrong(server, f"192.0.2.{number}") for number in range(4)] == [401, 401, 429, 429]


def test_behind_a_proxy_that_is_named_each_client_has_a_budget_and_junk_has_none(
    small: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "127.0.0.1")
    with Server(small) as server:
        new_user(server.service, "ada", "correct horse", "read")
        assert [wrong(server, f"{number}.1.1.1, 192.0.2.1") for number in range(3)] == [401, 401, 429]
        assert wrong(server, "192.0.2.2") == 401
        assert [wrong(server, f"junk{number}") for number in range(3)] == [401, 401, 429]
        assert [wrong(server, f"2001:db8::{number}") for number in range(3)] == [401, 401, 429]
        assert wrong(server, "2001:db8:0:1::1") == 401
