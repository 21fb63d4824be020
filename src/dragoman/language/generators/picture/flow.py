"""A flow as a picture: events, commands, and what joins or parts them."""

from __future__ import annotations

from dragoman.language import syntax as s
from dragoman.language.generators.picture.layout import Layout, arrange
from dragoman.language.generators.picture.svg import FAINT, Drawing, Point, curve

_EVENT, _COMMAND, _FLOW, _GATE = "#ffd8a8", "#a5d8ff", "#d8f5a2", "#ffffff"


def flow_graph(flow: s.Flow) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Nodes with their kind (event, command, flow, or an operator), and edges."""
    nodes: dict[str, str] = {}
    edges: dict[tuple[str, str], None] = {}

    def add(kind: str, name: str) -> str:
        key = f"{kind} {name}"
        nodes[key] = kind
        return key

    def gather(kind: str, combined: s.Combined, number: int) -> str:
        """Several things before a step meet in one gate."""
        keys = [add(kind, name.text) for name in combined.names]
        if len(keys) == 1:
            return keys[0]
        gate = add("and", f"join {number}")
        edges.update(dict.fromkeys((key, gate) for key in keys))
        return gate

    def scatter(source: str, kind: str, combined: s.Combined, number: int) -> list[str]:
        """Several things after a step leave one gate."""
        keys = [add(kind, name.text) for name in combined.names]
        if len(keys) > 1:
            gate = add(combined.operator, f"split {number} {kind}")
            edges[(source, gate)] = None
            source = gate
        edges.update(dict.fromkeys((source, key) for key in keys))
        return keys

    for number, step in enumerate(flow.steps):
        sources = [add("command", name.text) for name in step.commands.names] if step.commands else []
        if step.events is not None:
            trigger = gather("event", step.events, number)
            if step.commands is not None:
                sources = scatter(trigger, "command", step.commands, number)
            elif step.subflow is not None:
                sources = [add("flow", step.subflow.text)]
                edges[(trigger, sources[0])] = None
        for index, source in enumerate(sources if step.emitted else ()):
            if step.emitted is not None:
                scatter(source, "event", step.emitted, 1000 * (index + 1) + number)
    return nodes, list(edges)


def flow_svg(flow: s.Flow) -> str:
    """One flow as an SVG document."""
    nodes, edges = flow_graph(flow)
    sizes = {
        key: (150.0, 40.0) if kind in ("event", "command", "flow") else (30.0, 30.0)
        for key, kind in nodes.items()
    }
    layout = arrange(sizes, edges, {}, gaps=(60, 24))
    drawing = Drawing()
    depth = _draw_edges(drawing, layout, edges)
    for key, kind in nodes.items():
        box = layout.boxes[key]
        middle = box.x + box.width / 2
        if kind in ("event", "command", "flow"):
            colour = {"event": _EVENT, "command": _COMMAND, "flow": _FLOW}[kind]
            drawing.rect(box.x, box.y, box.width, box.height, colour, radius=14 if kind == "event" else 3)
            drawing.text(middle, box.middle + 4, key.partition(" ")[2], 12, box.width - 8)
        else:
            drawing.rect(box.x, box.y, box.width, box.height, _GATE, radius=15)
            drawing.text(middle, box.middle + 4, kind, 10)
    return drawing.render(layout.width, layout.height + depth, flow.name.text)


def _draw_edges(drawing: Drawing, layout: Layout, edges: list[tuple[str, str]]) -> float:
    """Forward edges as curves, those that lead back below everything. Returns the room these need."""
    lane = 0
    for source, target in edges:
        start, end = layout.boxes[source], layout.boxes[target]
        if end.column > start.column:
            points: list[Point] = [(start.right, start.middle)]
            for station in layout.ways.get((source, target), ()):
                points += [(station.x, station.middle), (station.right, station.middle)]
            drawing.arrow(curve([*points, (end.x, end.middle)]))
            continue
        lane += 1
        y = layout.height + 8 + 12 * lane
        from_x, to_x = start.x + start.width / 2, end.x + end.width / 2
        path = f"M {from_x:.1f} {start.y + start.height:.1f} L {from_x:.1f} {y:.1f} L {to_x:.1f} {y:.1f} "
        drawing.arrow(path + f"L {to_x:.1f} {end.y + end.height:.1f}", FAINT)
    return 12.0 * lane + 16
