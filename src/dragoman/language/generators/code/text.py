"""Texts of the model inside Python code."""

from __future__ import annotations


def docstring(text: str, indent: int = 0) -> str:
    """A docstring that says a text, whatever characters it has."""
    pad = "\n" + " " * indent
    body = text.strip().replace("\\", "\\\\").replace('"""', "'''")
    lines = [line.strip() for line in body.splitlines()] or [""]
    joined = pad.join(lines).replace(f"{pad}\n", "\n\n") if len(lines) > 1 else lines[0]
    closing = pad if len(lines) > 1 else " " if joined.endswith('"') else ""
    return f'"""{joined}{closing}"""'
