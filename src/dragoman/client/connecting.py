"""Brokers and registries from their URLs."""

from __future__ import annotations

from dragoman.core.broker import Broker
from dragoman.core.database import Database
from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import BROKERS, DATABASES, load, scheme_of
from dragoman.core.registry import Registry
from dragoman.registry import connect


def open_broker(broker: str | Broker | None) -> tuple[Broker, bool]:
    """The broker, and whether it was made here and so has to be closed here."""
    if broker is None or isinstance(broker, str):
        url = broker or default_broker()
        made: Broker = load(BROKERS, scheme_of(url))(url)
        return made, True
    _require("broker", broker, "publish")
    return broker, False


def open_database(database: str | Database | None) -> tuple[Database | None, bool]:
    """The application's database, and whether it was made here and so has to be closed here."""
    if isinstance(database, str):
        made: Database = load(DATABASES, scheme_of(database))(database)
        return made, True
    if database is not None:
        _require("database", database, "transaction")
    return database, False


def open_registry(registry: str | Registry | None) -> tuple[Registry, bool]:
    if registry is None or isinstance(registry, str):
        return connect(registry or default_registry()), True
    _require("registry", registry, "register")
    return registry, False


def _require(name: str, given: object, method: str) -> None:
    """An opened one may be of any class; but it must be able to do something."""
    if not callable(getattr(given, method, None)):
        raise ConfigurationError(
            f"The {name} is {type(given).__qualname__}.", next="Give a URL, or one that is opened."
        )
