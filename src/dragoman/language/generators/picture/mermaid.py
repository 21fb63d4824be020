"""Pictures as Mermaid text, for README files and wikis."""

from __future__ import annotations

from dragoman.language import syntax as s
from dragoman.language.generators.picture.flow import flow_graph
from dragoman.language.generators.picture.system import API, links
from dragoman.language.model import Model

_GATES = {"and": "AND", "or": "OR", "xor": "XOR"}


def system_mermaid(model: Model) -> str:
    """The system as a flowchart: endpoints are boxes, channels lie between them."""
    ids: dict[str, str] = {}
    lines = ["flowchart LR"]
    for number, name in enumerate(model.endpoints):
        ids[f"endpoint {name}"] = f"e{number}"
        lines.append(f'  e{number}["{_text(name)}"]')
    if any(link.endpoint == API for link in links(model)):
        ids[API] = "api"
        lines.append(f'  api["{_text(model.api.name.text)}"]')
    for number, (name, channel) in enumerate(model.channels.items()):
        ids[f"channel {name}"] = f"c{number}"
        lines.append(f'  c{number}(["{_label(model, channel)}"])')
    for link in dict.fromkeys(links(model)):
        name = link.channel.partition(" ")[2]
        message = model.channels[name].messages[link.message].name.text
        endpoint, channel_id = ids[link.endpoint], ids[link.channel]
        source, target = (channel_id, endpoint) if link.to_endpoint else (endpoint, channel_id)
        lines.append(f'  {source} -->|"{_text(message)}"| {target}')
    for name, channel in model.channels.items():
        for route, word in ((channel.dead_letters, "dead letters"), (channel.invalid_messages, "invalid")):
            if route is not None and f"channel {route.text}" in ids:
                lines.append(f'  {ids[f"channel {name}"]} -.->|"{word}"| {ids[f"channel {route.text}"]}')
    return "\n".join(lines) + "\n"


def _label(model: Model, channel: s.Channel) -> str:
    protocols = {e.protocol.text: None for _, e in model.exposures.get(channel.name.text, [])}
    return "<br/>".join([_text(channel.name.text), *map(_text, protocols)])


def flow_mermaid(flow: s.Flow) -> str:
    nodes, edges = flow_graph(flow)
    ids = {key: f"n{number}" for number, key in enumerate(nodes)}
    lines = ["flowchart LR"]
    for key, kind in nodes.items():
        name = _text(key.partition(" ")[2])
        shapes = {"event": f'(["{name}"])', "command": f'["{name}"]', "flow": f'[["{name}"]]'}
        lines.append(f"  {ids[key]}{shapes.get(kind) or '{' + _GATES.get(kind, kind) + '}'}")
    lines += [f"  {ids[source]} --> {ids[target]}" for source, target in edges]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    return text.replace('"', "#quot;").replace("\n", " ")
