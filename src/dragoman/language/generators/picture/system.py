"""The system as a picture: endpoints, the channels between them as pipes, messages, brokers by colour."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dragoman.language import syntax as s
from dragoman.language.generators.picture.layout import Box, Layout, arrange
from dragoman.language.generators.picture.svg import FAINT, INK, PAPER, Drawing, Point, curve, lines_of
from dragoman.language.model import Model

_COLOURS = ("#cfe8ff", "#d8f3dc", "#ffe8cc", "#f3d9fa", "#fff3bf", "#ffdeeb", "#d0ebff", "#e9ecef")
_ERRORS = "#ffe3e3"
_PIPE_WIDTH, _PIPE_HEIGHT, _PIPE_ROOM = 230.0, 26.0, 51.0
_BOX_WIDTH, _BOX_HEIGHT = 170.0, 43.0
_LINE = 11.0
_PORTS = 14.0
"""Between the ends of two links at one side of an endpoint, if there is room."""
_LANE = 16.0
_MOST_COLUMNS, _MOST_LANES = 8, 6
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
    if _tangled(layout, found):
        found = [_beside(link) for link in found]
        layout = _layout(model, found)
    drawing = Drawing()
    router = _Router(drawing, model, layout, found)
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
    sizes = {_endpoint(name): _box(node) for name, node in model.endpoints.items()}
    if any(link.endpoint.startswith("provider ") for link in found):
        sizes = {}
    for link in found:
        sizes[link.endpoint] = _box(model.endpoints.get(link.endpoint.partition(" ")[2]))
    for name, channel in model.channels.items():
        sizes[_channel(name)] = (_PIPE_WIDTH, _tops(channel)[-1] + _LINE * len(_notes(channel)))
    edges = [
        (link.channel, link.endpoint) if link.provides else (link.endpoint, link.channel) for link in found
    ]
    return arrange(sizes, edges, {_channel(name): 1 for name in model.channels})


def _box(endpoint: s.Endpoint | None) -> tuple[float, float]:
    return _BOX_WIDTH, _BOX_HEIGHT + _LINE * max(len(_types(endpoint)) if endpoint else 1, 1)


def _types(endpoint: s.Endpoint) -> list[str]:
    words = ", ".join(type.text.lower().replace("_", " ") for type in endpoint.types)
    return lines_of(words, 9, _BOX_WIDTH - 8)


def _tops(channel: s.Channel) -> list[float]:
    """The tops of the pipes of a channel in its box, and the end of the last one's room."""
    tops = [20.0]
    for message in channel.messages:
        tops.append(tops[-1] + _PIPE_ROOM + _LINE * (len(_path(message)) - 1))
    return tops


def _path(message: s.Message) -> list[str]:
    return lines_of(message.path.text.value, 9.5, _PIPE_WIDTH + 40, "/")


def _tangled(layout: Layout, found: list[Link]) -> bool:
    """Whether nobody could follow it: too many columns, or too many links that go round."""
    around = {(link.endpoint, link.channel) for link in found if _backwards(layout, link)}
    columns = max((box.column for box in layout.boxes.values()), default=0)
    return columns > _MOST_COLUMNS or len(around) > _MOST_LANES


def _backwards(layout: Layout, link: Link) -> bool:
    """Against the order of the columns."""
    pipe, box = layout.boxes[link.channel], layout.boxes[link.endpoint]
    return (box.column < pipe.column) is link.provides


def _beside(link: Link) -> Link:
    """Where the system is too long or goes round in circles, an endpoint is drawn once on each side."""
    if not link.provides or link.endpoint == API:
        return link
    return replace(link, endpoint=link.endpoint.replace("endpoint ", "provider ", 1))


class _Router:
    """Draws links. Those against the order of the columns go round below everything."""

    def __init__(self, drawing: Drawing, model: Model, layout: Layout, found: list[Link]) -> None:
        self.drawing = drawing
        self.layout = layout
        self.lanes: dict[tuple[str, str], int] = {}
        self._tops = {_channel(name): _tops(channel) for name, channel in model.channels.items()}
        self._shifts = self._spread(found)

    def _spread(self, found: list[Link]) -> dict[Link, float]:
        """Each link has its own end at its endpoint, in the order of where it comes from."""
        sides: dict[tuple[str, bool], list[Link]] = {}
        for link in found:
            if not _backwards(self.layout, link):
                sides.setdefault((link.endpoint, link.provides), []).append(link)
        shifts = {}
        for (endpoint, _), links in sides.items():
            links.sort(key=self._origin)
            room = self.layout.boxes[endpoint].height - 16
            step = min(_PORTS, room / max(len(links) - 1, 1))
            for number, link in enumerate(links):
                shifts[link] = step * (number - (len(links) - 1) / 2)
        return shifts

    def _origin(self, link: Link) -> tuple[float, float]:
        """How high a link arrives: at the station next to the endpoint, or at the pipe."""
        stations = self._stations(link)
        port = self._port(link)[1]
        return (stations[0].middle if stations else port, port)

    def _stations(self, link: Link) -> tuple[Box, ...]:
        """From the endpoint to the pipe."""
        if link.provides:
            return self.layout.ways.get((link.channel, link.endpoint), ())[::-1]
        return self.layout.ways.get((link.endpoint, link.channel), ())

    def _port(self, link: Link) -> Point:
        pipe = self.layout.boxes[link.channel]
        top = self._tops[link.channel][link.message]
        return (pipe.right if link.provides else pipe.x, pipe.y + top + _PIPE_HEIGHT / 2)

    @property
    def depth(self) -> float:
        return 30 + _LANE * len(self.lanes) if self.lanes else 20

    def draw(self, link: Link) -> None:
        box, port, left = self.layout.boxes[link.endpoint], self._port(link), not link.provides
        if _backwards(self.layout, link):
            self._around(link, port, box, left)
            return
        points: list[Point] = [(box.right if left else box.x, box.middle + self._shifts[link])]
        apart = 7.0 * link.message
        for station in self._stations(link):
            ends = [(station.x, station.middle + apart), (station.right, station.middle + apart)]
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
    exposing = model.exposures.get(channel.name.text, [])
    brokers = list(dict.fromkeys(broker.name.text for broker, _ in exposing))
    error = channel.has("DEAD_LETTER") or channel.has("INVALID_MESSAGE")
    fill = _ERRORS if error else colours[brokers[0]] if brokers else PAPER
    middle = box.x + box.width / 2
    drawing.text(middle, box.y + 12, channel.name.text, 12, box.width, bold=True)
    for top, message in zip(_tops(channel), channel.messages, strict=False):
        y = box.y + top
        drawing.pipe(box.x, y, box.width, _PIPE_HEIGHT, fill)
        _draw_message(drawing, message, box.x + 16, y + 3)
        for number, other in enumerate(brokers[1:3]):
            drawing.rect(box.right - 30 - 14 * number, y + 8, 10, 10, colours[other], radius=2)
        drawing.text(middle + 8, y + 17, message.name.text, 11, box.width - 70)
        drawing.lines(middle, y + _PIPE_HEIGHT + 13, _path(message), 9.5, _LINE)
    drawing.lines(middle, box.y + _tops(channel)[-1] + 3, _notes(channel), 9, _LINE)


def _notes(channel: s.Channel) -> list[str]:
    notes = [_SHORT[type.text] for type in channel.types]
    if channel.dead_letters:
        notes.append(f"dead → {channel.dead_letters.text}")
    if channel.invalid_messages:
        notes.append(f"invalid → {channel.invalid_messages.text}")
    return lines_of(" · ".join(notes), 9, _PIPE_WIDTH + 60, "·")


def _draw_message(drawing: Drawing, message: s.Message, x: float, y: float) -> None:
    """A message is a small sheet with the letter of its kind."""
    type = message.content.message_type
    drawing.rect(x, y, 20, 20, PAPER, radius=2)
    drawing.text(x + 10, y + 14.5, _LETTERS.get(type.text, "M") if type else "M", 11, bold=True)


def _draw_endpoint(drawing: Drawing, endpoint: s.Endpoint, box: Box) -> None:
    drawing.rect(box.x, box.y, box.width, box.height, "#f1f3f5")
    middle = box.x + box.width / 2
    types = _types(endpoint)
    drawing.text(middle, box.y + (24 if types else 32), endpoint.name.text, 13, box.width - 8, bold=True)
    drawing.lines(middle, box.y + 42, types, 9, _LINE)


def _draw_api(drawing: Drawing, model: Model, box: Box) -> None:
    drawing.rect(box.x, box.y, box.width, box.height, PAPER, dashed=True)
    middle = box.x + box.width / 2
    drawing.text(middle, box.y + 24, model.api.name.text, 13, box.width - 8, bold=True)
    drawing.text(middle, box.y + 42, "the API's side", 9, box.width - 8, FAINT)


def _legend(drawing: Drawing, model: Model, colours: dict[str, str], top: float) -> float:
    """The brokers with their colours, protocols and places."""
    y = top + 14
    for name, broker in model.brokers.items():
        where = "; ".join(f"{e.protocol.text} at {e.address}" for e in broker.exposures)
        drawing.rect(0, y, 16, 12, colours[name], radius=2)
        drawing.text(24, y + 10, f"{name}: {where}", 11, anchor="start")
        y += 20
    drawing.text(0, y + 12, "C command   D document   E event   M message", 10, fill=INK, anchor="start")
    return y + 20 - top
