"""Redis: what a URL may say, and what the driver's errors become."""

from __future__ import annotations

import importlib
import inspect

import pytest
from redis import exceptions as theirs

from dragoman.adapters.redis import RedisBroker
from dragoman.adapters.redis.errors import TABLE, translated
from dragoman.adapters.redis.options import options_of
from dragoman.core.channel import Channel
from dragoman.core.errors import (
    AccessRefused,
    BrokerUnavailable,
    ConfigurationError,
    DragomanError,
    Unsupported,
)

SECRET = "s3cret-word"


def test_no_error_of_the_driver_is_missed() -> None:
    for module in (
        "redis.exceptions",
        "redis.asyncio.sentinel",
        "redis.sentinel",
        "redis.lock",
        "redis.cluster",
    ):
        for _, cls in inspect.getmembers(importlib.import_module(module), inspect.isclass):
            if issubclass(cls, Exception) and cls.__module__.startswith("redis"):
                assert any(base in TABLE for base in cls.__mro__), cls
    public = {cls for _, cls in inspect.getmembers(theirs, inspect.isclass) if issubclass(cls, Exception)}
    assert {cls for cls in public if cls.__module__ == "redis.exceptions"} <= TABLE.keys()


@pytest.mark.parametrize(
    ("error", "kind", "word"),
    [
        (theirs.BusyLoadingError("Redis is loading the dataset in memory"), BrokerUnavailable, "loading"),
        (theirs.ReadOnlyError("You can't write against a read only replica."), BrokerUnavailable, "replica"),
        (theirs.ResponseError("READONLY You can't write against a replica"), BrokerUnavailable, "replica"),
        (
            theirs.ResponseError("OOM command not allowed when used memory > 'maxmemory'."),
            BrokerUnavailable,
            "mem",
        ),
        (theirs.ResponseError("MISCONF Errors writing to the AOF file"), BrokerUnavailable, "disk"),
        (theirs.AuthenticationError("invalid username-password pair"), AccessRefused, "password"),
        (theirs.ResponseError("NOPERM this user has no permissions"), AccessRefused, "user"),
        (theirs.ResponseError("WRONGTYPE Operation against a key"), ConfigurationError, "something else"),
        (theirs.MovedError("3999 127.0.0.1:6381"), Unsupported, "Cluster"),
        (ConnectionResetError(), BrokerUnavailable, "reached"),
        (theirs.TimeoutError("Timeout reading from socket"), BrokerUnavailable, "in time"),
    ],
)
def test_errors_become_ours_and_say_what_to_do(
    error: Exception, kind: type[DragomanError], word: str
) -> None:
    found = translated(error)
    assert type(found) is kind
    assert word in found.what and found.next


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("redis://h?no_such=1", "Known options: ca, certificate"),
        ("redis://h?lease=0", "above zero"),
        ("redis://h?durability=maybe", "disk, memory"),
        ("redis://h?tls=perhaps", "yes, no"),
        ("rediss://h?ca=/not/there", "no such file"),
        ("redis://h?verify=no", "without TLS"),
        ("redis://h?prefix=a%20b", "letters"),
        ("redis://h:port", "not a number"),
        ("redis://h/one", "not a number"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(url: str, word: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RedisBroker(url)
    assert word in str(caught.value)


def test_options_are_read_and_secrets_are_not_shown() -> None:
    url = f"rediss://me:{SECRET}%40@host:7000/3?lease=5&replicas=2"
    options = options_of(url)
    assert (options.host, options.port, options.db, options.tls) == ("host", 7000, 3, True)
    assert (options.username, options.password) == ("me", f"{SECRET}@")
    assert (options.lease, options.replicas) == (5.0, 2)
    for shown in (repr(options), repr(RedisBroker(url)), repr(RedisBroker(url).log())):
        assert SECRET not in shown
    with pytest.raises(ConfigurationError) as caught:
        RedisBroker(f"redis://me:{SECRET}@host:port")
    assert SECRET not in str(caught.value)


async def test_nobody_there_is_told_without_the_password() -> None:
    broker = RedisBroker(f"redis://me:{SECRET}@127.0.0.1:1")
    with pytest.raises(BrokerUnavailable) as caught:
        await broker.connect()
    assert "127.0.0.1:1" in str(caught.value) and SECRET not in str(caught.value)
    with pytest.raises(BrokerUnavailable):
        await broker.create(Channel("c"))


def test_memory_durability_is_said_in_the_capabilities() -> None:
    assert RedisBroker("redis://h").capabilities.durable
    assert not RedisBroker("redis://h?durability=memory").capabilities.durable
