"""Write the reference pages from the code: ``python scripts/reference.py``. A test compares them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

import dragoman
from dragoman.cli import COMMANDS, NOUNS
from dragoman.cli.config import SECTIONS
from dragoman.client.exposition import exposition
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.metrics import Metrics as ClientMetrics
from dragoman.client.options import ClientOptions, EndpointOptions, LaterOptions, RetryOptions
from dragoman.client.sequence.options import SequenceOptions
from dragoman.core import errors
from dragoman.core.settings import variable
from dragoman.gateway.http.metrics import Metrics as GatewayMetrics
from dragoman.pipeline.metrics import metrics_text
from dragoman.registry.http.metrics import Metrics as RegistryMetrics
from dragoman.topology.metrics import Metrics as TopologyMetrics
from dragoman.topology.metrics import TopicMetrics

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dragoman"
FOLDER = ROOT / "docs" / "reference"

Row = tuple[str, ...]

ERRORS = """# Errors

Every error is a `DragomanError` with a stable `code`, the place (`where`) and what to do (`next`).
Codes may be added, never changed. Programs compare codes by their beginning: `message.frame` stands
for all damaged frames. The command line prints errors as JSON with `--json`, HTTP servers answer
with the same fields, and dead letters carry the code in a header.
"""

CODES = """## Codes

With what each says; `…` stands for a name or a value. Letters whose handler raised an error of its
own have the code `endpoint.failed`.
"""

CONFIGURATION = """# Configuration

A setting is taken from its environment variable, else from `dragoman.toml` in the working folder
(`DRAGOMAN_CONFIG` names another file), else it has its default. `dragoman config show` tells what
is in force and where it came from; `dragoman config init` writes a file to start from. Options of
commands count before all of them; unknown settings are refused.
"""

COMMAND_LINE = """# Commands

`dragoman NOUN VERB`. Exit codes: 0 done, 1 the answer is no (incompatible, lint errors, drift), 2
it could not be done. `dragoman --install-completion` adds completion to your shell.
"""

METRICS = """# Metrics

All of them as Prometheus reads them. Counters count from the start of the process; a histogram has
`_bucket`, `_sum` and `_count`.
"""

NAMES = """# Python names

`from dragoman import ...`: these names are the public interface, loaded when they are first used.
The parts have more, in `dragoman.registry`, `dragoman.pipeline`, `dragoman.gateway`,
`dragoman.topology`, `dragoman.language` and `dragoman.testing`: their pages show it.
"""


def table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(each) for each in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|") or "-"


def sentence(text: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((text or "").partition("\n\n")[0].split()).replace("``", "`")


def errors_page() -> str:
    said = dict(re.findall(r"── (\w+) {2,}(.+)", errors.__doc__ or ""))
    tree = [
        (f"`{cls.code}`", f"`{cls.__name__}`", said.get(cls.__name__, ""))
        for cls in _subclasses(errors.DragomanError)
    ]
    parts = [
        ERRORS,
        "## Classes\n\n" + table(("code", "class", "when"), tree),
        CODES,
    ]
    for family, found in sorted(_codes_by_family().items()):
        rows = [(f"`{code}`", "<br>".join(sorted(texts))) for code, texts in sorted(found.items())]
        parts.append(f"### {family}\n\n" + table(("code", "says"), rows))
    return "\n".join(parts)


def _subclasses(cls: type[errors.DragomanError]) -> Iterator[type[errors.DragomanError]]:
    yield cls
    for each in sorted(cls.__subclasses__(), key=lambda each: each.code):
        if each.__module__ == errors.__name__:
            yield from _subclasses(each)


def _codes_by_family() -> dict[str, dict[str, set[str]]]:
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                code = next((_text(each.value) for each in node.keywords if each.arg == "code"), "")
                if "." in code and node.args:
                    found[code.partition(".")[0]][code].add(_text(node.args[0]))
    return found


def _text(node: ast.expr) -> str:
    """A text as it is written, with ``…`` for what is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) if isinstance(each, ast.Constant) else "…" for each in node.values)
    return ""


def configuration_page() -> str:
    parts = [CONFIGURATION]
    for section, kind in SECTIONS.items():
        rows = [
            (
                f"`{each.name}`",
                f"`{variable(f'{section}.{each.name}' if section else each.name)}`",
                _value(each.default),
                each.metadata["help"],
            )
            for each in dataclasses.fields(kind)
        ]
        title = f"`[{section}]`" if section else "At the top of the file"
        parts.append(f"## {title}\n\n" + table(("setting", "variable", "default", "meaning"), rows))
    parts.append(
        "## The client's options\n\nFrozen values, given whole to `Client`, controllers and endpoints.\n"
    )
    for cls in (ClientOptions, EndpointOptions, RetryOptions, LaterOptions, SequenceOptions):
        parts.append(
            f"### {cls.__name__}\n\n{_described(cls)}"
            + table(("option", "default", "meaning"), _options(cls))
        )
    return "\n".join(parts)


def _options(cls: type) -> list[Row]:
    notes = attribute_notes(cls)
    return [(f"`{each.name}`", _default(each), notes.get(each.name, "")) for each in dataclasses.fields(cls)]


def _described(cls: type) -> str:
    text = vars(cls).get("__doc__") or ""
    return "" if not text or text.startswith(f"{cls.__name__}(") else sentence(text) + "\n\n"


def _default(each: dataclasses.Field[Any]) -> str:
    if each.default is not dataclasses.MISSING:
        return _value(each.default)
    if each.default_factory is not dataclasses.MISSING:
        return f"`{getattr(each.default_factory, '__name__', 'a new one')}()`"
    return "required"


def _value(value: object) -> str:
    if value in (None, (), ""):
        return ""
    if isinstance(value, tuple):
        return "`" + ", ".join(each.__name__ if isinstance(each, type) else str(each) for each in value) + "`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value.value if isinstance(value, Enum) else value}`"


@cache
def attribute_notes(cls: type) -> dict[str, str]:
    """The texts that stand below the fields of a class."""
    body = ast.parse(inspect.getsource(cls).lstrip()).body[0]
    assert isinstance(body, ast.ClassDef)
    notes = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        target = field.targets[0] if isinstance(field, ast.Assign) else getattr(field, "target", None)
        if isinstance(target, ast.Name) and isinstance(below, ast.Expr):
            notes[target.id] = " ".join(_text(below.value).split()).replace("``", "`")
    return notes


def commands_page() -> str:
    parts = [COMMAND_LINE]
    for name in COMMANDS:
        single = typer.Typer()
        single.command(name)(getattr(import_module(f"dragoman.cli.{name}"), name))
        parts.append(_command(f"dragoman {name}", typer.main.get_command(single), 2))
    for noun, summary in NOUNS.items():
        parts.append(f"## dragoman {noun}\n\n{summary}\n")
        group = typer.main.get_command(import_module(f"dragoman.cli.{noun}").app)
        parts += [_command(name, each, 3) for name, each in _leaves(f"dragoman {noun}", group)]
    return "\n".join(parts)


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    for verb, each in getattr(command, "commands", {}).items():
        if hasattr(each, "commands"):
            yield from _leaves(f"{name} {verb}", each)
        else:
            yield f"{name} {verb}", each


def _command(name: str, command: Any, level: int) -> str:
    about, _, example = inspect.cleandoc(command.help or "").partition("Example:")
    text = f"{'#' * level} {name}\n\n{' '.join(about.split())}\n"
    if example:
        text += "\n```text\n" + "\n".join(line.strip() for line in example.strip().splitlines()) + "\n```\n"
    shown = [each for each in command.params if not each.hidden and "completion" not in each.name]
    rows = [(_spelling(each), _value(_plain_default(each)), each.help or "") for each in shown]
    return text + ("\n" + table(("parameter", "default", "meaning"), rows) if rows else "")


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        many = "..." if parameter.nargs == -1 else ""
        name = parameter.name.upper() + many
        return f"`{name}`" if parameter.required else f"`[{name}]`"
    return ", ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts)) + (
        " (required)" if parameter.required else ""
    )


def _plain_default(parameter: Any) -> object:
    default = parameter.default
    return None if callable(default) or isinstance(default, bool) else default


def metrics_page() -> str:
    client, topology = ClientMetrics(), TopologyMetrics()
    sources: dict[str, tuple[str, str, type | None]] = {
        "The client": (
            "`await client.exposition()`; serve it from whatever HTTP server you have.",
            exposition(client, {}),
            ChannelMetrics,
        ),
        "The registry": ("`GET /metrics` of a server.", RegistryMetrics().text(_registry_gauges()), None),
        "The gateway": ("`GET /metrics` of a server.", GatewayMetrics().text({}, 0), None),
        "The pipeline": ("`dragoman pipeline run --metrics-port PORT`.", metrics_text([]), None),
        "Topologies": ("`Metrics.prometheus()` of a topology.", topology.prometheus(), TopicMetrics),
    }
    parts = [METRICS]
    for title, (where, text, kind) in sources.items():
        notes = attribute_notes(kind) if kind else {}
        parts.append(
            f"## {title}\n\n{where}\n\n" + table(("metric", "kind", "meaning"), _families(text, notes))
        )
    return "\n".join(parts)


def _families(text: str, notes: dict[str, str]) -> Iterator[Row]:
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.MULTILINE))
    for name, kind in re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE):
        short = re.sub(r"^dragoman_[a-z]+_(origin_)?|_total$", "", name)
        yield (
            f"`{name}`",
            kind,
            notes.get(short) or helps.get(name) or short.replace("_", " ").capitalize() + ".",
        )


def _registry_gauges() -> list[tuple[str, str, float]]:
    """They are named where they are measured, inside a request."""
    tree = ast.parse((SOURCE / "registry" / "http" / "operation.py").read_text())
    tuples = [[_text(each) for each in node.elts] for node in ast.walk(tree) if isinstance(node, ast.Tuple)]
    return [(each[0], each[1], 0.0) for each in tuples if len(each) == 3 and each[0].startswith("dragoman_")]


def api_page() -> str:
    parts = [NAMES]
    for name in dragoman.__all__:
        parts.append(f"## {name}\n\n{_documented(name, getattr(dragoman, name))}")
    return "\n".join(parts)


def _documented(name: str, value: Any) -> str:
    if inspect.isfunction(value):
        return _callable(name, value)
    if not inspect.isclass(value):
        return f"```text\n{name} = {_alias(value)}\n```\n"
    text = _described(value)
    if issubclass(value, Enum):
        notes = attribute_notes(value)
        rows = [(f"`{each.name}`", f"`{each.value}`", notes.get(each.name, "")) for each in value]
        return text + table(("member", "value", "meaning"), rows)
    if dataclasses.is_dataclass(value):
        text += table(("field", "default", "meaning"), _options(value))
    elif issubclass(value, tuple):
        text += table(("field", "type"), [(f"`{each}`", f"`{kind}`") for each, kind in _types(value)])
    elif "__init__" in vars(value):
        text += _signature(name, value.__init__)
    return text + "".join(_member(*each) for each in vars(value).items() if not each[0].startswith("_"))


def _types(value: type) -> Iterator[tuple[str, str]]:
    for name, kind in inspect.get_annotations(value).items():
        yield name, kind.__forward_arg__ if hasattr(kind, "__forward_arg__") else str(kind)


def _callable(name: str, function: Callable[..., Any]) -> str:
    return f"{sentence(function.__doc__)}\n\n{_signature(name, function)}".lstrip()


def _member(name: str, member: Any) -> str:
    """A property with its type, a method with its signature; what has no word about it is left out."""
    if isinstance(member, property) and member.fget is not None:
        kind = inspect.get_annotations(member.fget).get("return")
        return f"\n**`{name}: {kind}`** {sentence(member.__doc__)}".rstrip() + "\n"
    if inspect.isfunction(member) and member.__doc__:
        return f"\n**`{name}`** {sentence(member.__doc__)}\n\n{_signature(name, member)}"
    return ""


def _signature(name: str, function: Callable[..., Any]) -> str:
    node = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    before = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    for group in (node.args.posonlyargs, node.args.args):
        if group and group[0].arg == "self":
            del group[0]
    after = "" if name[0].isupper() or node.returns is None else f" -> {ast.unparse(node.returns)}"
    arguments = ast.unparse(node.args)
    return f"```text\n{before}{name}({arguments}){after}\n```\n"


def _alias(value: object) -> str:
    return re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", str(value))


PAGES: dict[str, Callable[[], str]] = {
    "errors.md": errors_page,
    "configuration.md": configuration_page,
    "commands.md": commands_page,
    "metrics.md": metrics_page,
    "python.md": api_page,
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())


if __name__ == "__main__":
    main()
