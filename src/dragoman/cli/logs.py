"""How servers write their logs: options that they have in common."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class LogStyle(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


Log = Annotated[LogStyle, typer.Option("--log", help="How log lines are written, to standard error.")]
Level = Annotated[
    LogLevel, typer.Option("--log-level", case_sensitive=False, help="What is worth a log line.")
]
