"""Names of channels whose paths have parameters, and the values that stand in them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dragoman.language import syntax as s
from dragoman.language.path import channel_name, path_names

VALUE = re.compile(r"[A-Za-z0-9_-]+")
"""What may stand for a parameter of any type."""
_WHOLE = re.compile("-?[0-9]+")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
WRITTEN: Mapping[str, re.Pattern[str]] = {
    "bool": re.compile("[Tt]rue|[Ff]alse"),
    "int": _WHOLE,
    "long": _WHOLE,
    "float": _DECIMAL,
    "double": _DECIMAL,
}
"""How values of these types are written as text, in headers and in names of channels."""
_IN_NAMES = ("bool", "int", "long")
"""Types of which all values can be part of a name. A number with a dot cannot."""
_MARK = re.compile(r"0parameter([0-9]+)x")


def values_of_type(basic: str) -> re.Pattern[str]:
    return WRITTEN[basic] if basic in _IN_NAMES else VALUE


def pattern(path: s.Path, typed: bool = True) -> re.Pattern[str]:
    """All names that a path can have. A group for each parameter, in the order of ``path_names``."""
    names = path_names(path)
    types = {each.name.text: each.basic for each in path.parameters} if typed else {}
    marks = {name: f"0parameter{number}x" for number, name in enumerate(names)}
    seen = set[str]()

    def place(found: re.Match[str]) -> str:
        again = found[1] in seen
        seen.add(found[1])
        value = values_of_type(types.get(names[int(found[1])], ""))
        return f"(?P=p{found[1]})" if again else f"(?P<p{found[1]}>{value.pattern})"

    return re.compile(_MARK.sub(place, re.escape(channel_name(path, marks))))


def values_in(path: s.Path, name: str, typed: bool = True) -> dict[str, str]:
    """The values of a path's parameters in the name of a channel; none if it is another path's."""
    found = pattern(path, typed).fullmatch(name)
    return dict(zip(path_names(path), found.groups(), strict=True)) if found else {}


def mistyped(path: s.Path, name: str) -> list[str]:
    """Why a name is not one of the path's, if it has its form and a value is not of its type."""
    types = {each.name.text: each.basic for each in path.parameters}
    return [
        f"{value!r} is no {types[parameter]}, which the parameter {parameter!r} is"
        for parameter, value in values_in(path, name, typed=False).items()
        if parameter in types and not values_of_type(types[parameter]).fullmatch(value)
    ]
