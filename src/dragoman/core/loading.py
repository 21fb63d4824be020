"""From a URL's scheme, or a format's name, to the class that implements it.

Implementations are found through entry points, so a third party's adapter is the equal of ours,
and nothing in the framework names one.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from dragoman.core.errors import ConfigurationError, ExtraMissing
from dragoman.core.extras import DISTRIBUTION, extra_missing

BROKERS = "dragoman.brokers"
DATABASES = "dragoman.databases"
FORMATS = "dragoman.formats"
MODELS = "dragoman.models"

_KINDS = {BROKERS: "broker", DATABASES: "database", FORMATS: "format", MODELS: "model"}

_SECRET = re.compile(r"([?&][^=&]*(?:password|secret|token)[^=&]*=)[^&]*", re.IGNORECASE)

_EXTRAS = {"postgresql": "postgres", "mariadb": "mysql", "rediss": "redis"}


@cache
def load(group: str, name: str) -> Any:
    """The class registered as ``name``; an error that lists what there is, or what to install."""
    found = entry_points(group=group)
    if name not in found.names:
        kind = _KINDS.get(group, group)
        raise ConfigurationError(
            f"There is no {kind} of the kind {name!r}.{_other_kind(group, name)}",
            next=f"Use one of these: {', '.join(sorted(found.names)) or 'none is installed'}.",
        )
    try:
        return found[name].load()
    except ModuleNotFoundError as error:
        raise _missing(found[name], error.name) from error


def _other_kind(group: str, name: str) -> str:
    """A sentence that says so, if a database was named as a broker or a broker as a database."""
    for other in (BROKERS, DATABASES):
        if other != group and name in names(other):
            return f" That is a {_KINDS[other]}."
    return ""


def _missing(entry: EntryPoint, package: str | None) -> ExtraMissing:
    """An extra of ours; or, of somebody else's adapter, a dependency that its package names."""
    if entry.dist is not None and entry.dist.name != DISTRIBUTION:
        return ExtraMissing(
            f"{entry.name!r} needs the package {package!r}.",
            next=f"Install the dependencies of {entry.dist.name!r}, which brings {entry.name!r}.",
        )
    return extra_missing(repr(entry.name), package, _EXTRAS.get(entry.name, entry.name.lower()))


def names(group: str) -> tuple[str, ...]:
    """What is registered in a group, sorted."""
    return tuple(sorted(entry_points(group=group).names))


def scheme_of(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    if not separator or not scheme:
        raise ConfigurationError(
            f"{redacted(url)!r} is not a URL.", next="Write it as scheme://place, for example memory://"
        )
    return scheme.lower()


def query_of(url: str) -> dict[str, str]:
    """The options written behind the question mark."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def path_of(url: str) -> str:
    """The file path of a URL such as ``sqlite:///data/registry.db`` or ``embedded://./data``.

    ``scheme:///a`` is the absolute path ``/a``; ``scheme://a`` and ``scheme://./a`` are relative.
    """
    rest = url.partition("://")[2].partition("?")[0]
    path = unquote(rest)
    if "\0" in path:
        raise ConfigurationError(
            f"{redacted(url)!r} has a null byte in its path.", next="Write the path without %00."
        )
    return path


def redacted(url: str) -> str:
    """The URL without its secrets, fit for logs and errors."""
    url = _SECRET.sub(r"\1***", url)
    head, _, tail = url.rpartition("@")
    scheme = head[: head.find("://") + 3] if "://" in head else ""
    user, password, _ = head.removeprefix(scheme).partition(":")
    return f"{scheme}{user}:***@{tail}" if password else url
