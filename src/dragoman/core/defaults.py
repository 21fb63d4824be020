"""Where messages and contracts live when nobody says otherwise: a folder that all processes here share."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.core.settings import read_section, setting


@dataclass(frozen=True, slots=True)
class Places:
    """The first level of the settings."""

    broker: str = setting("embedded://.dragoman", "The broker's URL.")
    registry: str = setting(
        "sqlite://.dragoman/registry.db", "The registry: a database, or a server by http(s)://."
    )


def default_broker() -> str:
    """``DRAGOMAN_BROKER``, ``broker`` of the settings, or the embedded broker under ``./.dragoman``."""
    return read_section(Places).values.broker


def default_registry() -> str:
    """``DRAGOMAN_REGISTRY``, ``registry`` of the settings, or one on SQLite under ``./.dragoman``."""
    return read_section(Places).values.registry
