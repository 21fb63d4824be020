"""The system as a picture: endpoints, the channels between them as pipes, messages, brokers by colour."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dragoman.language import syntax as s
from dragoman.language.generators.picture.layout import Box, Layout, arrange
from dragoman.language.generators.picture.svg import FAINT, INK, PAPER, Drawing, Point, curve
from dragoman.language.model import Model

_COLOURS = ("#cfe8ff", "#d8f3dc", "#ffe8cc", "#f3d9fa", "#fff3bf", "#ffdeeb", "#d0ebff", "#e9ecef")
_ERRORS = "#ffe3e3"
_PIPE_WIDTH, _PIPE_HEIGHT, _PIPE_ROOM = 230.0, 26.0, 62.0
_BOX_WIDTH, _BOX_HEIGHT = 170.0, 54.0
_LANE = 16.0
_MOST_COLUMNS = 8
_LETTERS = {"COMMAND_MESSAGE": "C", "DOCUMENT_MESSAGE": "D", "EVENT_MESSAGE": "E"}
_SHORT = {
    "POINT_TO_POINT": "point-to-point",
    "PUBLISH_SUBSCRIBE": "publish-subscribe",
    "GUARANTEED_DELIVERY": "guaranteed",
    "DATA_TYPE": "datatype",
    "DEAD_LETTER": "dead letters",
    "INVALID_MESSAGE": "invalid messages",
}


@dataclass(frozen=True, slots=True)
class Link:
    """One message on its way between an endpoint and a pipe."""

    endpoint: str
    channel: str
    message: int
    to_endpoint: bool
    provides: bool


def _endpoint(name: str) -> str:
    return f"endpoint {name}"


def _channel(name: str) -> str:
    return f"channel {name}"


API = "api"
"""Stands for the API's own side of channels that no endpoint provides."""


def links(model: Model) -> list[Link]:
    found = []
    for each in model.interactions:
        number = next(i for i, m in enumerate(each.channel.messages) if m is each.message)
        found.append(
            Link(
                _endpoint(each.endpoint.name.text),
                _channel(each.channel.name.text),
                number,
                each.receives,
                each.provides,
            )
        )
    provided = {link.channel for link in found if link.provides}
    errors = {n.text for c in model.of(s.Channel) for n in (c.dead_letters, c.invalid_messages) if n}
    for channel in model.channels.values():
        name = channel.name.text
        if _channel(name) in provided or name in errors:
            continue
        for number, message in enumerate(channel.messages):
            towards = channel.direction != "produces" and message.part != "reply"
            found.append(Link(API, _channel(name), number, towards, True))
    return found


def system_svg(model: Model) -> str:
    """The whole system as an SVG document."""
    found = list(dict.fromkeys(links(model)))
    layout = _layout(model, found)
    if max((box.column for box in layout.boxes.values()), default=0) > _MOST_COLUMNS:
        found = [_beside(link) for link in found]
        layout = _layout(model, found)
    drawing = Drawing()
    router = _Router(drawing, layout)
    for link in found:
        router.draw(link)
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(model.brokers)}
    for name, channel in model.channels.items():
        _draw_channel(drawing, model, channel, layout.boxes[_channel(name)], colours)
    for node, box in layout.boxes.items():
        kind, _, name = node.partition(" ")
        if kind in ("endpoint", "provider"):
            _draw_endpoint(drawing, model.endpoints[name], box)
        elif node == API:
            _draw_api(drawing, model, box)
    bottom = layout.height + router.depth
    width = max(layout.width + (60 if router.lanes else 0), 420.0)
    return drawing.render(width, bottom + _legend(drawing, model, colours, bottom), model.api.name.text)


def _layout(model: Model, found: list[Link]) -> Layout:
    sizes = {_endpoint(name): (_BOX_WIDTH, _BOX_HEIGHT) for name in model.endpoints}
    if any(link.endpoint.startswith("provider ") for link in found):
        sizes = {}
    sizes |= {link.endpoint: (_BOX_WIDTH, _BOX_HEIGHT) for link in found}
    for name, channel in model.channels.items():
        sizes[_channel(name)] = (_PIPE_WIDTH, 20 + _PIPE_ROOM * len(channel.messages))
    edges = [
        (link.channel, link.endpoint) if link.provides else (link.endpoint, link.channel) for link in found
    ]
    return arrange(sizes, edges, {_channel(name): 1 for name in model.channels})


def _beside(link: Link) -> Link:
    """Where the system is too long or goes round in circles, an endpoint is drawn once on each side."""
    if not link.provides or link.endpoint == API:
        return link
    return replace(link, endpoint=link.endpoint.replace("endpoint ", "provider ", 1))


class _Router:
    """Draws links. Those between columns that are not neighbours go round below everything."""

    def __init__(self, drawing: Drawing, layout: Layout) -> None:
        self.drawing = drawing
        self.layout = layout
        self.lanes: dict[tuple[str, str], int] = {}

    @property
    def depth(self) -> float:
        return 30 + _LANE * len(self.lanes) if self.lanes else 20

    def draw(self, link: Link) -> None:
        pipe, box = self.layout.boxes[link.channel], self.layout.boxes[link.endpoint]
        left = not link.provides
        port = (pipe.x if left else pipe.right, pipe.y + 20 + _PIPE_ROOM * link.message + _PIPE_HEIGHT / 2)
        if (box.column < pipe.column) is not left:
            self._around(link, port, box, left)
            return
        edge = (link.endpoint, link.channel) if left else (link.channel, link.endpoint)
        shift = 14.0 * link.message - (7.0 if pipe.height > 20 + _PIPE_ROOM else 0.0)
        points: list[Point] = [(box.right if left else box.x, box.middle + shift)]
        for station in self.layout.ways.get(edge, ())[:: 1 if left else -1]:
            ends = [(station.x, station.middle + shift / 2), (station.right, station.middle + shift / 2)]
            points += ends if left else ends[::-1]
        points.append(port)
        self.drawing.arrow(curve(points[::-1] if link.to_endpoint else points))

    def _around(self, link: Link, port: Point, box: Box, left: bool) -> None:
        lane = self.lanes.setdefault((link.endpoint, link.channel), len(self.lanes))
        y = self.layout.height + 24 + _LANE * lane
        side = port[0] + (-14 - 4 * (lane % 8) if left else 14 + 4 * (lane % 8))
        beside = box.right + 16 + 4 * (lane % 8)
        level = box.middle + 4 * (lane % 5) - 8
        points = [port, (side, port[1]), (side, y), (beside, y), (beside, level), (box.right, level)]
        points = points if link.to_endpoint else points[::-1]
        path = "M " + " L ".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.drawing.arrow(path, FAINT)


def _draw_channel(
    drawing: Drawing, model: Model, channel: s.Channel, box: Box, colours: dict[str, str]
) -> None:
    brokers = [broker.name.text for broker, _ in model.exposures.get(channel.name.text, [])]
    error = channel.has("DEAD_LETTER") or channel.has("INVALID_MESSAGE")
    fill = _ERRORS if error else colours[brokers[0]] if brokers else PAPER
    middle = box.x + box.width / 2
    drawing.text(middle, box.y + 12, channel.name.text, 12, box.width, bold=True)
    for number, message in enumerate(channel.messages):
        y = box.y + 20 + _PIPE_ROOM * number
        drawing.pipe(box.x, y, box.width, _PIPE_HEIGHT, fill)
        _draw_message(drawing, message, box.x + 16, y + 3)
        drawing.text(middle + 8, y + 17, message.name.text, 11, box.width - 70)
        drawing.text(middle, y + _PIPE_HEIGHT + 13, message.path.text.value, 9.5, box.width, FAINT)
    drawing.text(middle, box.y + box.height - 8, _notes(channel), 9, box.width + 60, FAINT)


def _notes(channel: s.Channel) -> str:
    notes = [_SHORT[type.text] for type in channel.types]
    if channel.dead_letters:
        notes.append(f"dead → {channel.dead_letters.text}")
    return " · ".join(notes)


def _draw_message(drawing: Drawing, message: s.Message, x: float, y: float) -> None:
    """A message is a small sheet with the letter of its kind."""
    type = message.content.message_type
    drawing.rect(x, y, 20, 20, PAPER, radius=2)
    drawing.text(x + 10, y + 14.5, _LETTERS.get(type.text, "M") if type else "M", 11, bold=True)


def _draw_endpoint(drawing: Drawing, endpoint: s.Endpoint, box: Box) -> None:
    drawing.rect(box.x, box.y, box.width, box.height, "#f1f3f5")
    middle = box.x + box.width / 2
    types = ", ".join(type.text.lower().replace("_", " ") for type in endpoint.types)
    drawing.text(middle, box.y + (24 if types else 32), endpoint.name.text, 13, box.width - 8, bold=True)
    if types:
        drawing.text(middle, box.y + 42, types, 9, box.width - 8, FAINT)


def _draw_api(drawing: Drawing, model: Model, box: Box) -> None:
    drawing.rect(box.x, box.y, box.width, box.height, PAPER, dashed=True)
    middle = box.x + box.width / 2
    drawing.text(middle, box.y + 24, model.api.name.text, 13, box.width - 8, bold=True)
    drawing.text(middle, box.y + 42, "the API's side", 9, box.width - 8, FAINT)


def _legend(drawing: Drawing, model: Model, colours: dict[str, str], top: float) -> float:
    """The brokers with their colours, protocols and places."""
    y = top + 14
    for name, broker in model.brokers.items():
        where = "; ".join(f"{e.protocol.text} at {e.location.value}" for e in broker.exposures)
        drawing.rect(0, y, 16, 12, colours[name], radius=2)
        drawing.text(24, y + 10, f"{name}: {where}", 11, anchor="start")
        y += 20
    drawing.text(0, y + 12, "C command   D document   E event   M message", 10, fill=INK, anchor="start")
    return y + 20 - top
