"""Where the loan broker is: its model and the code of its endpoints, which are an example of their own."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve()


def examples() -> Path:
    """Beside this file where Dragoman is installed, in the repository otherwise."""
    installed = _HERE.parent / "examples"
    return installed if installed.is_dir() else _HERE.parents[4] / "examples"


def model() -> Path:
    return examples() / "models" / "loan-broker.mdsl"


def loan_broker(module: str) -> Any:
    """A module of the example."""
    folder = str(examples())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return import_module(f"loan_broker.{module}")
