"""Conformance suites for adapters, and what tests of users' own code need."""

import contextlib

from dragoman.core.clock import ManualClock
from dragoman.testing.proxy import Proxy
from dragoman.testing.workbench import Letter, Workbench

__all__ = ["Letter", "ManualClock", "Proxy", "Workbench"]

with contextlib.suppress(ImportError):
    import pytest

    # Failing assertions of the suites show their values, as those of test files do.
    pytest.register_assert_rewrite(f"{__name__}.brokers", f"{__name__}.child")
