"""What the driver raises, and what it means to us."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import exceptions as theirs

from dragoman.core.errors import (
    AccessRefused,
    BrokerError,
    BrokerUnavailable,
    ConfigurationError,
    DragomanError,
    Unsupported,
)

_DRIVER = BrokerError, "The driver refused the call.", "Report it, with what was done."
_CLUSTER = Unsupported, "This is a Redis Cluster.", "Use a single server, or one with replicas."
_AUTH = AccessRefused, "Redis refused the user or the password.", "Correct them in the URL."
_AWAY = BrokerUnavailable, "Redis cannot be reached.", "Is the server up? It is tried again on the next call."

TABLE: dict[type[Exception], tuple[type[DragomanError], str, str]] = {
    theirs.AuthenticationError: _AUTH,
    theirs.AuthenticationWrongNumberOfArgsError: _AUTH,
    theirs.ExternalAuthProviderError: _AUTH,
    theirs.AuthorizationError: _AUTH,
    theirs.NoPermissionError: (
        AccessRefused,
        "Redis does not let this user do that.",
        "Give it the commands @stream, @hash, @set, @sortedset, @scripting and the keys of the prefix.",
    ),
    theirs.BusyLoadingError: (BrokerUnavailable, "Redis is loading its data.", "Wait until it is done."),
    theirs.ReadOnlyError: (
        BrokerUnavailable,
        "This Redis is a read-only replica.",
        "Connect to the primary.",
    ),
    theirs.OutOfMemoryError: (
        BrokerUnavailable,
        "Redis has no memory left.",
        "Raise maxmemory, or shorten the retention of channels.",
    ),
    theirs.MaxConnectionsError: (
        BrokerUnavailable,
        "Redis accepts no more connections.",
        "Raise maxclients, or close some.",
    ),
    theirs.TimeoutError: (
        BrokerUnavailable,
        "Redis did not answer in time.",
        "It is not known whether the call was carried out.",
    ),
    theirs.NoScriptError: (BrokerUnavailable, "Redis forgot its scripts.", "Try again."),
    theirs.TryAgainError: (BrokerUnavailable, "Redis asks to try again.", "Try again."),
    theirs.MasterDownError: (
        BrokerUnavailable,
        "The primary of this replica is away.",
        "Connect to the primary.",
    ),
    theirs.ClusterDownError: _CLUSTER,
    theirs.ClusterCrossSlotError: _CLUSTER,
    theirs.CrossSlotTransactionError: _CLUSTER,
    theirs.InvalidPipelineStack: _CLUSTER,
    theirs.SlotNotCoveredError: _CLUSTER,
    theirs.RedisClusterException: _CLUSTER,
    theirs.ClusterError: _CLUSTER,
    theirs.AskError: _CLUSTER,
    theirs.MovedError: _CLUSTER,
    theirs.IncorrectPolicyType: _CLUSTER,
    theirs.DataError: _DRIVER,
    theirs.InvalidResponse: (
        BrokerUnavailable,
        "What answers there is not Redis.",
        "Check host and port, and whether TLS is wanted.",
    ),
    theirs.ExecAbortError: _DRIVER,
    theirs.LockError: _DRIVER,
    theirs.LockNotOwnedError: _DRIVER,
    theirs.ModuleError: _DRIVER,
    theirs.NoSuchFieldsetError: _DRIVER,
    theirs.PubSubError: _DRIVER,
    theirs.WatchError: _DRIVER,
    theirs.ChildDeadlockedError: _DRIVER,
    theirs.ConnectionError: _AWAY,
    theirs.ResponseError: (BrokerError, "Redis refused the command.", "See the cause."),
    theirs.RedisError: _DRIVER,
}

_REPLIES = {
    "WRONGPASS": _AUTH,
    "NOAUTH": _AUTH,
    "NOPERM": TABLE[theirs.NoPermissionError],
    "LOADING": TABLE[theirs.BusyLoadingError],
    "READONLY": TABLE[theirs.ReadOnlyError],
    "OOM": TABLE[theirs.OutOfMemoryError],
    "MASTERDOWN": TABLE[theirs.MasterDownError],
    "MISCONF": (
        BrokerUnavailable,
        "Redis cannot write to its disk.",
        "See the server's log: the disk may be full.",
    ),
    "NOREPLICAS": (BrokerUnavailable, "Redis has too few replicas.", "See min-replicas-to-write."),
    "BUSY": (BrokerUnavailable, "Redis is busy with a script.", "Wait until it is done."),
    "WRONGTYPE": (
        ConfigurationError,
        "A key of the channel holds something else.",
        "Use another prefix in the URL.",
    ),
    "MOVED": _CLUSTER,
    "CROSSSLOT": _CLUSTER,
}
"""Replies by their first word: inside a script the driver has no class of its own for them."""


def translated(error: Exception, **where: Any) -> DragomanError:
    kind, what, next = _meaning(error)
    return kind(what, next=next, **where)


def _meaning(error: Exception) -> tuple[type[DragomanError], str, str]:
    if isinstance(error, theirs.ResponseError):
        words = str(error).replace("ERR ", "", 1).split(" ", 1)
        if (found := _REPLIES.get(words[0].lstrip("-"))) is not None:
            return found
    for cls in type(error).__mro__:
        if cls in TABLE:
            return TABLE[cls]
    return _AWAY


@contextmanager
def ours(**where: Any) -> Iterator[None]:
    """Errors of the driver and of the network become ours."""
    try:
        yield
    except (theirs.RedisError, theirs.RedisClusterException, theirs.ChildDeadlockedError) as error:
        raise translated(error, **where) from error
    except theirs.IncorrectPolicyType as error:
        raise translated(error, **where) from error
    except (OSError, EOFError, TimeoutError) as error:
        raise translated(error, **where) from error
