"""The command that starts a pipeline again, with the same checkpoints."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.loading import redacted

if TYPE_CHECKING:
    from dragoman.pipeline.running import Flow, Pipeline


def how_to_start(pipeline: Pipeline, once: bool) -> str:
    """What to do, as a sentence: the command, if options can say what the pipeline does."""
    first = replace(pipeline.flows[0], channel="")
    alike = all(replace(flow, channel="") == first for flow in pipeline.flows)
    if not alike or first.table or first.contract or first.options:
        return "start the pipeline again as before."
    words = ["dragoman", "pipeline", "run"]
    words += [word for flow in pipeline.flows for word in ("--channel", flow.channel)]
    urls = {
        "broker": (pipeline.broker, default_broker()),
        "registry": (pipeline.registry, default_registry()),
    }
    secret = {
        name: redacted(url)
        for name, (url, default) in urls.items()
        if redacted(url) != url and url != default
    }
    shown = {name: given for name, given in urls.items() if name not in secret}
    words += [*_pipeline_options(pipeline, shown), *_flow_options(first)]
    command = f"run: {shlex.join([*words, '--once'] if once else words)}"
    return f"{_told_apart(secret)}, then {command}" if secret else command


def _told_apart(secret: dict[str, str]) -> str:
    """URLs whose secrets are not shown: a command with such a URL could not run as it stands."""
    settings = " and ".join(f"DRAGOMAN_{name.upper()} to {shlex.quote(url)}" for name, url in secret.items())
    return f"set {settings} with the real secret for each ***"


def _pipeline_options(pipeline: Pipeline, urls: dict[str, tuple[str, str]]) -> Iterator[str]:
    given = {
        "--to": (pipeline.to, ""),
        "--table-format": (pipeline.table_format, "delta"),
        "--name": (pipeline.name, "pipeline"),
        "--checkpoint": (pipeline.checkpoint, ""),
        **{f"--{name}": each for name, each in urls.items()},
    }
    for option, (value, default) in given.items():
        if value != default:
            yield from (option, value)


def _flow_options(flow: Flow) -> Iterator[str]:
    for field in fields(flow):
        value: Any = getattr(flow, field.name)
        if field.name == "channel" or value == field.default:
            continue
        for each in value if isinstance(value, tuple) else (value,):
            yield from (f"--{field.name.replace('_', '-')}", str(each))
