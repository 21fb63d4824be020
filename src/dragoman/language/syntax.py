"""The syntax tree: frozen nodes, each with the piece of the source it was read from.

Two trees are equal when they mean the same: places, quotes and layout do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar

from dragoman.language.tokens import Span

_LOGIN = re.compile(r"(^|://)[^/?#]*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Node):
    """An identifier, where it is declared or referred to."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Node):
    """A string: its value, and how it was written."""

    value: str
    raw: str = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyword(Node):
    """One of a fixed set of words, or a string in its place. ``written`` keeps an old spelling."""

    text: str
    quoted: bool = False
    written: str = field(default="", compare=False)


class Cardinality(Enum):
    ONE = ""
    EXACTLY_ONE = "!"
    OPTIONAL = "?"
    MANY = "*"
    SOME = "+"

    @property
    def optional(self) -> bool:
        return self in (Cardinality.OPTIONAL, Cardinality.MANY)

    @property
    def repeated(self) -> bool:
        return self in (Cardinality.MANY, Cardinality.SOME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure(Node):
    """A piece of a data type. ``stereotype`` is what stands in ``<<`` and ``>>``."""

    name: Text | None = None
    stereotype: Keyword | None = None
    cardinality: Cardinality = Cardinality.ONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Atomic(Structure):
    role: str
    basic: str | None = None
    role_span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generic(Structure):
    """``P``, or nothing but a name: a part of unknown shape."""

    placeholder: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference(Structure):
    type: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Structure):
    """Alternatives, parted by ``|``."""

    options: tuple[Structure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree(Structure):
    items: tuple[Structure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomicList(Structure):
    items: tuple[Structure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest(Structure):
    items: tuple[Structure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration(Node):
    """A top-level element with a name."""

    kind: ClassVar[str] = "declaration"
    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class DataType(Declaration):
    kind: ClassVar[str] = "data type"
    version: Text | None = None
    structure: Structure
    default: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalType(Node):
    """An event type or a command type, as flows use them."""

    name: Name
    version: Text | None = None
    structure: Structure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalTypes(Node):
    """``event type A, B`` or ``command type A, B``."""

    event: bool
    types: tuple[SignalType, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(Node):
    name: Name
    basic: str
    description: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Path(Node):
    text: Text
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expires(Node):
    amount: int
    unit: str

    @property
    def seconds(self) -> int:
        return self.amount * (60 if self.unit == "m" else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointed(Node):
    """``CORRELATION_ID``, ``SEQUENCE_ID`` or ``RETURN_ADDRESS`` with its place in the message."""

    word: str
    pointer: Text


Where = Expires | Pointed


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Node):
    key: Text
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Object(Node):
    entries: tuple[Entry, ...]

    def plain(self) -> dict[str, Any]:
        return {entry.key.value: plain(entry.value) for entry in self.entries}


@dataclass(frozen=True, slots=True, kw_only=True)
class Array(Node):
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar(Node):
    value: int | float | bool
    raw: str = field(compare=False)


Value = Text | Scalar | Object | Array


def plain(value: Value) -> Any:
    """A binding value as Python has it."""
    match value:
        case Object():
            return value.plain()
        case Array():
            return [plain(item) for item in value.items]
        case _:
            return value.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings(Node):
    """``bindings for`` a protocol; without one they are the broker's own."""

    protocol: Keyword | None
    object: Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Content(Node):
    """What a message carries. The verbs are ``expecting`` or ``delivering``."""

    verb: Keyword
    headers: Structure | None = None
    payload_verb: Keyword | None = None
    payload: Structure
    type_system: Keyword | None = None
    message_type: Keyword | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Node):
    """A message and the path it takes. ``part`` is ``one-way``, ``request`` or ``reply``."""

    part: str
    name: Name
    description: Text | None = None
    path: Path
    content: Content
    where: tuple[Where, ...] = ()
    bindings: tuple[Bindings, ...] = ()

    def pointed(self, word: str) -> Pointed | None:
        return next((each for each in self.where if isinstance(each, Pointed) and each.word == word), None)

    @property
    def expires(self) -> Expires | None:
        return next((each for each in self.where if isinstance(each, Expires)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel(Declaration):
    """``direction`` is ``accepts``, ``produces``, ``accepts and produces`` or ``request-reply``."""

    kind: ClassVar[str] = "channel"
    types: tuple[Keyword, ...] = ()
    guarantee: Keyword | None = None
    description: Text | None = None
    dead_letters: Name | None = None
    invalid_messages: Name | None = None
    direction: str
    messages: tuple[Message, ...]

    def has(self, type: str) -> bool:
        return any(each.text == type for each in self.types)

    @property
    def request_reply(self) -> bool:
        return self.direction == "request-reply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Node):
    name: Name
    mechanism: Keyword
    place: Text | None = None
    settings: Object | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure(Node):
    """What a broker offers at one location: channels, or the whole API by its name."""

    contracts: tuple[Name, ...]
    location: Text
    protocol: Keyword
    bindings: Bindings | None = None
    policies: tuple[Policy, ...] = ()

    @property
    def address(self) -> str:
        """The location without name and password, as documents and pictures show it."""
        return _LOGIN.sub(r"\1", self.location.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker(Declaration):
    kind: ClassVar[str] = "message broker"
    description: Text | None = None
    exposures: tuple[Exposure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(Node):
    left: Text
    operator: str
    right: Text | Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Use(Node):
    """An endpoint's use of a channel, or of one message of a request-reply channel."""

    channel: Name
    conditions: tuple[Condition, ...] = ()
    durable: Keyword | None = None
    protocol: Keyword | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses(Node):
    """``uses`` or ``provides``, from one broker or from none in particular."""

    provides: bool = False
    broker: Name | None = None
    uses: tuple[Use, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Declaration):
    kind: ClassVar[str] = "message endpoint"
    types: tuple[Keyword, ...] = ()
    roles: tuple[Keyword, ...] = ()
    description: Text | None = None
    uses: tuple[Uses, ...] = ()

    def has(self, type: str) -> bool:
        return any(each.text == type for each in self.types)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verbatim(Node):
    """A clause that is kept word by word and not interpreted."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Node):
    """``status``, ``error`` or ``analytics``."""

    word: str
    name: Name | None = None
    structure: Structure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityRule(Node):
    name: Name
    structure: Structure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link(Node):
    name: Text
    relation: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Representation(Node):
    headers: Structure | None = None
    payload: Structure
    type_system: Keyword | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvent(Node):
    name: Name
    version: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Node):
    name: Name
    version: Text | None = None
    responsibility: Keyword | None = None
    pattern: Keyword | None = None
    request: Representation | None = None
    response: Representation | None = None
    links: tuple[Link, ...] = ()
    reports: tuple[Report, ...] = ()
    transition: tuple[Text, Text] | None = None
    events: tuple[ReceivedEvent, ...] = ()
    undone_by: Name | None = None
    policies: tuple[SecurityRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointType(Declaration):
    kind: ClassVar[str] = "endpoint type"
    version: Text | None = None
    supports: tuple[str, Name] | None = None
    roles: tuple[Keyword, ...] = ()
    policy: SecurityRule | None = None
    operations: tuple[Operation, ...] = ()
    events: tuple[ReceivedEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Location(Node):
    text: Text
    protocols: tuple[Keyword, ...]
    rest: Verbatim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(Node):
    contract: Name
    locations: tuple[Location, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider(Declaration):
    kind: ClassVar[str] = "API provider"
    version: Text | None = None
    offers: tuple[Offer, ...]
    conditions: Text | None = None
    rest: Verbatim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption(Node):
    contract: Name
    provider: Name | None = None
    gateway: bool = False
    protocol: Keyword | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiClient(Declaration):
    kind: ClassVar[str] = "API client"
    version: Text | None = None
    consumptions: tuple[Consumption, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign(Declaration):
    """A declaration of plain MDSL that is kept as it is: gateways, scenarios, relation types, SLAs."""

    kind: ClassVar[str] = "foreign"
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined(Node):
    """Events or commands with what stands between them: ``and``, ``or``, ``xor``; empty for one alone."""

    names: tuple[Name, ...]
    operators: tuple[str, ...] = ()

    @property
    def operator(self) -> str:
        return self.operators[0] if self.operators else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Node):
    """``events`` trigger ``commands`` or a sub-flow; the commands emit ``emitted``."""

    events: Combined | None = None
    commands: Combined | None = None
    subflow: Name | None = None
    actor: Text | None = None
    emitted: Combined | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBinding(Node):
    """An event or command bound to an operation or a message."""

    event: bool
    signal: Name
    operation: bool
    target: Name
    mediation: tuple[Name, Name] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowBinding(Node):
    """Where steps of a flow happen: an endpoint type or a channel."""

    channel: bool
    target: Name
    steps: tuple[StepBinding, ...] = ()
    provider: Name | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow(Declaration):
    kind: ClassVar[str] = "flow"
    version: Text | None = None
    realizes: Name | None = None
    type: Keyword | None = None
    steps: tuple[Step, ...] = ()
    bindings: tuple[FlowBinding, ...] = ()
    technology: Keyword | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(Declaration):
    """A declaration that could not be read to its end. Its name is known, so that it can be referred to."""

    kind: ClassVar[str] = "broken"
    of: str


Member = (
    DataType
    | SignalTypes
    | Channel
    | Broker
    | Endpoint
    | EndpointType
    | Provider
    | ApiClient
    | Flow
    | Foreign
    | Broken
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(Node):
    """The root of a file."""

    name: Name
    version: Text | None = None
    visibility: Keyword | None = None
    directions: tuple[Keyword, ...] = ()
    overview: Text | None = None
    members: tuple[Member, ...] = ()
    closed: bool = field(default=False, compare=False)
    """Whether the file ends with ``IPA``."""


_CHILDREN: dict[type[Node], tuple[str, ...]] = {}


def _children(kind: type[Node]) -> tuple[str, ...]:
    """The names of the fields that may hold nodes, looked up once for each kind."""
    if kind not in _CHILDREN:
        _CHILDREN[kind] = tuple(each.name for each in fields(kind) if not each.name.endswith("span"))
    return _CHILDREN[kind]


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, each before what is in it."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        for name in reversed(_children(type(current))):
            value = getattr(current, name)
            if isinstance(value, Node):
                waiting.append(value)
            elif isinstance(value, tuple):
                waiting.extend(item for item in reversed(value) if isinstance(item, Node))
