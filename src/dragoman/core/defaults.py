"""Where messages and contracts live when nobody says otherwise: a folder that all processes here share."""

from __future__ import annotations

import os


def default_broker() -> str:
    """``DRAGOMAN_BROKER``, or the embedded broker under ``./.dragoman``."""
    return os.environ.get("DRAGOMAN_BROKER") or "embedded://.dragoman"


def default_registry() -> str:
    """``DRAGOMAN_REGISTRY``, or a registry on SQLite under ``./.dragoman``."""
    return os.environ.get("DRAGOMAN_REGISTRY") or "sqlite://.dragoman/registry.db"
