"""Names of channels whose paths have parameters, and the values that stand in them."""

from __future__ import annotations

import re

from dragoman.language import syntax as s
from dragoman.language.path import channel_name, path_names

VALUE = re.compile(r"[A-Za-z0-9_-]+")
"""What may stand for a parameter."""
_MARK = re.compile(r"0parameter([0-9]+)x")


def pattern(path: s.Path) -> re.Pattern[str]:
    """All names that a path can have. A group for each parameter, in the order of ``path_names``."""
    marks = {name: f"0parameter{number}x" for number, name in enumerate(path_names(path))}
    seen = set[str]()

    def place(found: re.Match[str]) -> str:
        again = found[1] in seen
        seen.add(found[1])
        return f"(?P=p{found[1]})" if again else f"(?P<p{found[1]}>{VALUE.pattern})"

    return re.compile(_MARK.sub(place, re.escape(channel_name(path, marks))))


def values_in(path: s.Path, name: str) -> dict[str, str]:
    """The values of a path's parameters in the name of a channel; none if it is another path's."""
    found = pattern(path).fullmatch(name)
    return dict(zip(path_names(path), found.groups(), strict=True)) if found else {}
