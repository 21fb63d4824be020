"""Logs of the server: one JSON object to a line, or plain text. Payloads and credentials never appear."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

LogForm = Literal["json", "text"]

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}

_ENDS_A_VALUE = frozenset(' ="\\')


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(_extras(record))
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        extras = " ".join(f"{name}={_quoted(value)}" for name, value in _extras(record).items())
        text = f"{at} {record.levelname.lower():7} {_in_one_line(record.getMessage())} {extras}".rstrip()
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _quoted(value: object) -> str:
    """As it is, if it cannot be taken for anything else. What it says may come from anywhere."""
    text = str(value)
    if text and text.isprintable() and not _ENDS_A_VALUE.intersection(text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _in_one_line(text: str) -> str:
    """Without characters that would look like another line, or that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _extras(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL}


def set_up(form: LogForm = "text", level: str = "INFO") -> None:
    """Send the process's logs to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else Plain())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
