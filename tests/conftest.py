"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.services.fixtures", "tests.spark"]

settings.register_profile(
    "dragoman",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("dragoman")
