"""Wait for a broker or a registry that is away, and go on when it is back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from dragoman.core.backoff import RECONNECT
from dragoman.core.errors import BrokerUnavailable, RegistryUnavailable

T = TypeVar("T")
_log = logging.getLogger(__name__)


def patiently(call: Callable[[], T], seconds: float) -> T:
    """What the call gives, tried again while the other side is away, for so many seconds at most."""
    deadline = time.monotonic() + seconds
    waits = RECONNECT.waits_s()
    while True:
        try:
            return call()
        except (BrokerUnavailable, RegistryUnavailable) as error:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            _log.warning("%s Trying again.", error.what)
            time.sleep(min(next(waits), left))
