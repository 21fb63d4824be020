"""The registry: contracts, their versions and schemas; in process, over HTTP, or as a client of either.

``connect`` gives the right one for a URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import BROKERS, DATABASES, names, redacted, scheme_of
from dragoman.core.registry import Registry

if TYPE_CHECKING:
    from dragoman.registry.client import RegistryClient
    from dragoman.registry.service import RegistryService

__all__ = ["RegistryClient", "RegistryService", "connect"]


def connect(url: str, *, username: str = "", password: str = "", token: str = "", ca: str = "") -> Registry:
    """A registry by its URL.

    ``http://`` and ``https://`` give a client; its credentials are ``username`` and ``password``, or a
    ``token`` (an API key or a JWT); ``ca`` is a file of certificates to trust.

    ``memory://`` is a registry of this process alone. Any database's URL, such as
    ``sqlite:///var/lib/registry.db``, is the registry itself, in process.
    """
    scheme = scheme_of(url)
    if scheme in ("http", "https"):
        from dragoman.registry.client import RegistryClient

        return RegistryClient(url, username=username, password=password, token=token, ca=ca)
    if scheme != "memory" and scheme not in names(DATABASES):
        is_broker = " It is that of a broker." if scheme in names(BROKERS) else ""
        raise ConfigurationError(
            f"{redacted(url)!r} is not the URL of a registry.{is_broker}",
            next=f"Use http://, https://, memory://, or a database: {', '.join(names(DATABASES))}. "
            "In a folder, that is sqlite://FOLDER/registry.db.",
        )
    from dragoman.registry.service import RegistryService

    return RegistryService.open("sqlite://:memory:" if scheme == "memory" else url)


def __getattr__(name: str) -> Any:
    """Load the service and the client only when they are asked for."""
    if name == "RegistryService":
        from dragoman.registry.service import RegistryService

        return RegistryService
    if name == "RegistryClient":
        from dragoman.registry.client import RegistryClient

        return RegistryClient
    raise AttributeError(name)
