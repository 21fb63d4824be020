"""Debian's Chromium, for pages that are tested as a person would use them."""

from __future__ import annotations

import shutil

import pytest

from tests.services.fixtures import missing
from tests.services.server import ServiceUnavailable, install


def chromium_program() -> str:
    """The browser's path, after installing it if need be."""
    found = shutil.which("chromium")
    if found is None:
        try:
            install("chromium")
        except ServiceUnavailable as unavailable:
            missing(str(unavailable))
        found = shutil.which("chromium")
    if found is None:
        missing("chromium is missing. Debian: apt-get install chromium")
        pytest.skip("chromium is missing")
    return found
