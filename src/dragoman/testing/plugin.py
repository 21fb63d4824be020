"""Fixtures for pytest: installed with the package, whatever plugin runs asynchronous tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dragoman.testing.workbench import Workbench


@pytest.fixture
def workbench() -> Callable[..., Workbench]:
    """Makes workbenches: ``async with workbench([MyController]) as bench: ...``."""
    return Workbench
