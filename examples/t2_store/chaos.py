"""``T2_STRIKES=FOLDER`` kills the process without warning in the first command of each kind, once for all."""

from __future__ import annotations

import os
import signal
from pathlib import Path

_FOLDER = os.environ.get("T2_STRIKES")


def strike(kind: str) -> None:
    if _FOLDER is None:
        return
    try:
        (Path(_FOLDER) / kind).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
