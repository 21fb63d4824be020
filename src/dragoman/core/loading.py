"""From a URL's scheme, or a format's name, to the class that implements it.

Implementations are found through entry points, so a third party's adapter is the equal of ours,
and nothing in the framework names one.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from dragoman.core.errors import ConfigurationError, ExtraMissing

BROKERS = "dragoman.brokers"
DATABASES = "dragoman.databases"
FORMATS = "dragoman.formats"
MODELS = "dragoman.models"

_SECRET = re.compile(r"([?&][^=&]*(?:password|secret|token)[^=&]*=)[^&]*", re.IGNORECASE)

_EXTRAS = {"postgresql": "postgres", "mariadb": "mysql", "rediss": "redis"}


@cache
def load(group: str, name: str) -> Any:
    """The class registered as ``name``; an error that lists what there is, or what to install."""
    found = entry_points(group=group)
    if name not in found.names:
        raise ConfigurationError(
            f"Nothing is registered as {name!r}.",
            next=f"Known in {group}: {', '.join(sorted(found.names)) or 'nothing'}.",
        )
    try:
        return found[name].load()
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(name, name.lower())
        raise ExtraMissing(
            f"{name!r} needs the package {error.name!r}.", next=f"Run: pip install 'dragoman[{extra}]'"
        ) from error


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
    return unquote(rest)


def redacted(url: str) -> str:
    """The URL without its secrets, fit for logs and errors."""
    url = _SECRET.sub(r"\1***", url)
    head, _, tail = url.rpartition("@")
    scheme = head[: head.find("://") + 3] if "://" in head else ""
    user, password, _ = head.removeprefix(scheme).partition(":")
    return f"{scheme}{user}:***@{tail}" if password else url
