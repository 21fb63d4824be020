"""The canonical form of a model: one line per clause, in two-space steps.

A printed line knows where in the source its content began, so that comments find their place again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from dragoman.language import syntax as s
from dragoman.language.tokens import Source, Token, quoted
from dragoman.language.words import DECLARATIONS, ROLES, SINGLE_DECLARATIONS

WIDTH = 100
_ESCAPED = {*ROLES, *DECLARATIONS, *SINGLE_DECLARATIONS} | {
    *("P", "IPA", "from", "all", "consumed", "where", "via", "uses", "provides", "status", "error"),
    *("analytics", "operation", "links", "reporting", "transitions", "emitting", "compensated"),
    *("protected", "policy", "exposes", "receives", "delivering", "default", "version", "type"),
    *("role", "as", "structured"),
}
_BRACKETS = {s.Tree: ("{", "}"), s.AtomicList: ("(", ")"), s.Forest: ("[", "]")}


@dataclass
class Line:
    indent: int
    text: str
    anchor: int
    opens: bool = False
    """Whether it starts a declaration."""
    leading: list[Token] = field(default_factory=list)
    trailing: list[Token] = field(default_factory=list)


def name(node: s.Name) -> str:
    return escaped(node.text)


def escaped(name: str) -> str:
    """An identifier, marked as one where it would be read as a word of the language."""
    return f"^{name}" if name in _ESCAPED else name


def text(node: s.Text) -> str:
    return node.raw if node.raw.startswith('"') else quoted(node.value)


def keyword(node: s.Keyword) -> str:
    if not node.quoted:
        return node.text
    return node.written if node.written.startswith('"') else quoted(node.text)


def keywords(nodes: Sequence[s.Keyword]) -> str:
    return ", ".join(keyword(node) for node in nodes)


def inline(node: s.Structure) -> str:
    """A structure on one line."""
    if isinstance(node, s.Choice):
        return " | ".join(inline(option) for option in node.options)
    return _head(node) + _body(node) + node.cardinality.value


def _head(node: s.Structure) -> str:
    stereotype = f"<<{keyword(node.stereotype)}>> " if node.stereotype else ""
    if isinstance(node, s.Generic) and not node.placeholder:
        return stereotype
    return stereotype + (f"{text(node.name)}: " if node.name else "")


def _body(node: s.Structure) -> str:
    match node:
        case s.Atomic():
            return node.role + (f"<{node.basic}>" if node.basic else "")
        case s.Reference():
            return name(node.type)
        case s.Generic(placeholder=True):
            return "P"
        case s.Generic():
            return text(node.name) if node.name else "P"
        case s.Tree():
            return "{ " + ", ".join(inline(item) for item in node.items) + " }"
        case s.AtomicList():
            return "(" + ", ".join(inline(item) for item in node.items) + ")"
        case s.Forest():
            return "[ " + "; ".join(inline(item) for item in node.items) + " ]"
    raise AssertionError(node)


def inline_value(node: s.Value) -> str:
    match node:
        case s.Text():
            return text(node)
        case s.Scalar():
            return node.raw
        case s.Array():
            return "[" + ", ".join(inline_value(item) for item in node.items) + "]"
        case s.Object():
            entries = ", ".join(f"{text(e.key)}: {inline_value(e.value)}" for e in node.entries)
            return "{ " + entries + " }" if entries else "{}"


class Printer:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines: list[Line] = []
        self._comments = [token.start for token in source.comments]

    def line(self, indent: int, text: str, node: s.Node | int, opens: bool = False) -> None:
        anchor = node if isinstance(node, int) else node.span.start
        self.lines.append(Line(indent, text, anchor, opens))

    def _fits(self, indent: int, text: str, start: int, end: int) -> bool:
        """Whether a text fits on a line, and no comment stands in the source between two places."""
        if not _short(indent, text):
            return False
        following = bisect_right(self._comments, start)
        return following == len(self._comments) or self._comments[following] >= end

    def _inside(self, first: s.Node, last: s.Node) -> tuple[int, int]:
        """Where the brackets around some items stand."""
        starts = self.source.significant_starts
        return starts[bisect_left(starts, first.span.start) - 1], starts[bisect_left(starts, last.span.end)]

    def structure(
        self, indent: int, before: str, node: s.Structure, after: str = "", anchor: s.Node | None = None
    ) -> None:
        """Print a structure behind ``before``, on one line if it fits."""
        whole = before + inline(node) + after
        start = anchor or node
        items = getattr(node, "items", None)
        if isinstance(node, s.Choice) and not self._choice_fits(indent, whole, node):
            for option in node.options[:-1]:
                self.structure(indent, before, option, " |")
                before = ""
            self.structure(indent, before, node.options[-1], after)
        elif items is None or self._fits(indent, whole, *self._inside(items[0], items[-1])):
            self.line(indent, whole, start)
        else:
            opening, closing = _BRACKETS[type(node)]
            separator = ";" if isinstance(node, s.Forest) else ","
            self.line(indent, before + _head(node) + opening, start)
            for item in items[:-1]:
                self.structure(indent + 1, "", item, separator)
            self.structure(indent + 1, "", items[-1])
            end = self._inside(items[0], items[-1])[1]
            self.line(indent, closing + node.cardinality.value + after, end)

    def _choice_fits(self, indent: int, whole: str, node: s.Choice) -> bool:
        """No comment stands behind a bar, or in the brackets of an option."""
        spans = [(self._inside(option, option)[0], option.span.start) for option in node.options[1:]]
        for option in node.options:
            items = getattr(option, "items", None)
            spans += [self._inside(items[0], items[-1])] if items else []
        return all(self._fits(indent, whole, *span) for span in spans)

    def value(self, indent: int, before: str, node: s.Value, after: str = "", anchor: int = -1) -> None:
        start = anchor if anchor >= 0 else node.span.start
        whole = before + inline_value(node) + after
        parts: list[tuple[str, s.Value, int]] = []
        if isinstance(node, s.Object):
            parts = [(f"{text(e.key)}: ", e.value, e.span.start) for e in node.entries]
        elif isinstance(node, s.Array):
            parts = [("", item, item.span.start) for item in node.items]
        if not parts or self._fits(indent, whole, *node.span):
            self.line(indent, whole, start)
            return
        opening, closing = ("{", "}") if isinstance(node, s.Object) else ("[", "]")
        self.line(indent, before + opening, start)
        for index, (head, value, at) in enumerate(parts):
            self.value(indent + 1, head, value, "," if index < len(parts) - 1 else "", at)
        self.line(indent, closing + after, node.span.end - 1)

    def described(self, indent: int, node: s.Text | None) -> None:
        if node is not None:
            self.line(indent, f"description {text(node)}", node)

    def api(self, api: s.Api) -> None:
        self.line(0, f"API description {name(api.name)}", api, opens=True)
        if api.version:
            self.line(1, f"version {text(api.version)}", api.version)
        if api.visibility:
            towards = f" for {keywords(api.directions)}" if api.directions else ""
            self.line(1, f"usage context {keyword(api.visibility)}{towards}", api.visibility)
        if api.overview:
            self.line(1, f"overview {text(api.overview)}", api.overview)
        for member in api.members:
            first = len(self.lines)
            self.member(member)
            self.lines[first].opens = True
        if api.closed:
            self.line(0, "IPA", api.span.end - len("IPA"), opens=True)

    def member(self, node: s.Member) -> None:
        printers: dict[type, Callable[..., None]] = {
            s.DataType: self.data_type,
            s.SignalTypes: self.signal_types,
            s.Channel: self.channel,
            s.Broker: self.broker,
            s.Endpoint: self.endpoint,
            s.EndpointType: self.endpoint_type,
            s.Provider: self.provider,
            s.ApiClient: self.client,
            s.Flow: self.flow,
            s.Foreign: self.verbatim,
        }
        printers[type(node)](node)

    def data_type(self, node: s.DataType) -> None:
        version = f" version {text(node.version)}" if node.version else ""
        default = f" default is {text(node.default)}" if node.default else ""
        head = f"data type {name(node.name)}{version} "
        self.structure(0, head, node.structure, default, node)

    def signal_types(self, node: s.SignalTypes) -> None:
        before = "event type " if node.event else "command type "
        plain = all(each.structure is None for each in node.types)
        whole = before + ", ".join(_signal(each) for each in node.types)
        if len(node.types) == 1 or (plain and _short(0, whole)):
            first = node.types[0]
            if first.structure is None:
                self.line(0, whole, node)
            else:
                self.structure(0, before + _signal(first) + " ", first.structure, anchor=node)
            return
        for index, each in enumerate(node.types):
            after = "," if index < len(node.types) - 1 else ""
            indent = 1 if index else 0
            if each.structure is None:
                self.line(indent, before + _signal(each) + after, each)
            else:
                self.structure(indent, before + _signal(each) + " ", each.structure, after, each)
            before = ""

    def channel(self, node: s.Channel) -> None:
        self.line(0, f"channel {name(node.name)}", node)
        if node.types:
            self.line(1, f"of type {keywords(node.types)}", node.types[0])
        if node.guarantee:
            self.line(1, f"delivery guarantee {keyword(node.guarantee)}", node.guarantee)
        self.described(1, node.description)
        if node.dead_letters:
            self.line(1, f"dead letters to {name(node.dead_letters)}", node.dead_letters)
        if node.invalid_messages:
            self.line(1, f"invalid messages to {name(node.invalid_messages)}", node.invalid_messages)
        for message in node.messages:
            if message.part == "one-way":
                self.path(1, message.path)
                self.line(1, f"{node.direction} message {name(message.name)}", message)
                self.described(2, message.description)
            else:
                self.line(1, f"{message.part} message {name(message.name)}", message)
                self.described(2, message.description)
                self.path(2, message.path)
            self.content(2, message.content)
            self.where(2, message.where)
            for bindings in message.bindings:
                protocol = keyword(bindings.protocol) if bindings.protocol else ""
                self.value(2, f"bindings for {protocol} ", bindings.object, anchor=bindings.span.start)

    def path(self, indent: int, node: s.Path) -> None:
        self.line(indent, f"on path {text(node.text)}", node)
        for index, each in enumerate(node.parameters):
            before = "with " if index == 0 else "  "
            after = "," if index < len(node.parameters) - 1 else ""
            description = f", {text(each.description)}" if each.description else ""
            self.line(indent + 1, f"{before}{name(each.name)}: {each.basic}{description}{after}", each)

    def content(self, indent: int, node: s.Content) -> None:
        after = f" structured as {keyword(node.type_system)}" if node.type_system else ""
        after += f" as {keyword(node.message_type)}" if node.message_type else ""
        verb = keyword(node.verb)
        if node.headers is None:
            self.structure(indent, f"{verb} payload ", node.payload, after, node)
            return
        self.line(indent, verb, node)
        self.structure(indent + 1, "headers ", node.headers)
        if node.payload_verb is not None:
            self.line(indent, keyword(node.payload_verb), node.payload_verb)
        self.structure(indent + 1, "payload ", node.payload, after)

    def where(self, indent: int, clauses: Sequence[s.Where]) -> None:
        if not clauses:
            return
        self.line(indent, "where", clauses[0].span.start - 1)
        for index, clause in enumerate(clauses):
            after = "," if index < len(clauses) - 1 else ""
            if isinstance(clause, s.Expires):
                body = f"MESSAGE_EXPIRES in {clause.amount}{clause.unit}"
            else:
                body = f"{clause.word} is {text(clause.pointer)}"
            self.line(indent + 1, body + after, clause)

    def broker(self, node: s.Broker) -> None:
        self.line(0, f"message broker {name(node.name)}", node)
        self.described(1, node.description)
        for each in node.exposures:
            self._names(1, "exposes ", each.contracts, each)
            self.line(2, f"at location {text(each.location)}", each.location)
            self.line(2, f"via protocol {keyword(each.protocol)}", each.protocol)
            if each.bindings:
                self.value(2, "bindings ", each.bindings.object, anchor=each.bindings.span.start)
            for policy in each.policies:
                body = f"policy {name(policy.name)} realized using {keyword(policy.mechanism)}"
                body += f" in {text(policy.place)}" if policy.place else ""
                if policy.settings:
                    self.value(2, body + " with ", policy.settings, anchor=policy.span.start)
                else:
                    self.line(2, body, policy)

    def _names(self, indent: int, before: str, names: Sequence[s.Name], node: s.Node) -> None:
        """A list of names, one per line when it is too long for one."""
        whole = before + ", ".join(name(each) for each in names)
        if len(names) == 1 or _short(indent, whole):
            self.line(indent, whole, node)
            return
        self.line(indent, before.rstrip(), node.span.start - 1)
        for index, each in enumerate(names):
            self.line(indent + 1, name(each) + ("," if index < len(names) - 1 else ""), each)

    def endpoint(self, node: s.Endpoint) -> None:
        self.line(0, f"message endpoint {name(node.name)}", node)
        if node.types:
            self.line(1, f"of type {keywords(node.types)}", node.types[0])
        if node.roles:
            self.line(1, f"serves as {keywords(node.roles)}", node.roles[0])
        self.described(1, node.description)
        if not node.uses:
            self.line(1, "uses", node.span.end - 1)
        for group in node.uses:
            verb = "provides" if group.provides else "uses"
            source = f"from {name(group.broker)}" if group.broker else "channels"
            self.line(1, f"{verb} {source}:", group)
            for index, use in enumerate(group.uses):
                self.use(2, use, "," if index < len(group.uses) - 1 else "")

    def use(self, indent: int, node: s.Use, after: str) -> None:
        protocol = f" via protocol {keyword(node.protocol)}" if node.protocol else ""
        conditions = [
            f"consumed if {text(each.left)} {each.operator} {inline_value(each.right)}"
            for each in node.conditions
        ]
        anchors = [each.span.start for each in node.conditions]
        if node.durable:
            conditions.append("all subscriptions are durable")
            anchors.append(node.durable.span.start)
        if not conditions:
            self.line(indent, name(node.channel) + protocol + after, node)
            return
        self.line(indent, name(node.channel), node)
        for index, condition in enumerate(conditions):
            last = index == len(conditions) - 1
            before = "where " if index == 0 else "  "
            end = protocol + after if last else ","
            self.line(indent + 1, before + condition + end, anchors[index])

    def endpoint_type(self, node: s.EndpointType) -> None:
        self.line(0, f"endpoint type {name(node.name)}", node)
        if node.version:
            self.line(1, f"version {text(node.version)}", node.version)
        if node.supports:
            self.line(1, f"supports {node.supports[0]} {name(node.supports[1])}", node.supports[1])
        if node.roles:
            self.line(1, f"serves as {keywords(node.roles)}", node.roles[0])
        if node.policy:
            self.security_rule(1, node.policy)
        for index, operation in enumerate(node.operations):
            if index == 0:
                self.line(1, "exposes", operation.span.start - 1)
            self.operation(2, operation)
        self._events(1, "receives", node.events)

    def _events(self, indent: int, word: str, events: Sequence[s.ReceivedEvent]) -> None:
        for index, each in enumerate(events):
            if index == 0:
                self.line(indent, word, each.span.start - 1)
            version = f" version {text(each.version)}" if each.version else ""
            self.line(indent + 1, f"event {name(each.name)}{version}", each)

    def security_rule(self, indent: int, node: s.SecurityRule) -> None:
        if node.structure is None:
            self.line(indent, f"policy {name(node.name)}", node)
        else:
            self.structure(indent, f"policy {name(node.name)} ", node.structure, anchor=node)

    def operation(self, indent: int, node: s.Operation) -> None:
        version = f" version {text(node.version)}" if node.version else ""
        self.line(indent, f"operation {name(node.name)}{version}", node)
        deeper = indent + 1
        if node.responsibility:
            self.line(deeper, f"with responsibility {keyword(node.responsibility)}", node.responsibility)
        if node.pattern:
            self.line(deeper, f"in {keyword(node.pattern)} conversation", node.pattern)
        self._representation(deeper, "expecting", node.request)
        self._representation(deeper, "delivering", node.response)
        for index, link in enumerate(node.links):
            if index == 0:
                self.line(deeper, "links", link.span.start - 1)
            self.line(deeper + 1, f"{text(link.name)}: {name(link.relation)}", link)
        for index, report in enumerate(node.reports):
            if index == 0:
                self.line(deeper, "reporting", report.span.start - 1)
            self._report(deeper + 1, report)
        if node.transition:
            before, after = node.transition
            self.line(deeper, f"transitions from {text(before)} to {text(after)}", before)
        self._events(deeper, "emitting", node.events)
        if node.undone_by:
            self.line(deeper, f"compensated by {name(node.undone_by)}", node.undone_by)
        for index, policy in enumerate(node.policies):
            if index == 0:
                self.line(deeper, "protected by", policy.span.start - 1)
            self.security_rule(deeper + 1, policy)

    def _representation(self, indent: int, verb: str, node: s.Representation | None) -> None:
        if node is None:
            return
        after = f" structured as {keyword(node.type_system)}" if node.type_system else ""
        self.line(indent, verb, node.span.start - 1)
        if node.headers:
            self.structure(indent + 1, "headers ", node.headers)
        self.structure(indent + 1, "payload ", node.payload, after)

    def _report(self, indent: int, node: s.Report) -> None:
        head = node.word + (f" {name(node.name)}" if node.name else "")
        if node.structure is None:
            self.line(indent, head, node)
        else:
            self.structure(indent, head + " ", node.structure, anchor=node)

    def provider(self, node: s.Provider) -> None:
        version = f" version {text(node.version)}" if node.version else ""
        self.line(0, f"API provider {name(node.name)}{version}", node)
        for offer in node.offers:
            self.line(1, f"offers {name(offer.contract)}", offer)
            for location in offer.locations:
                self.line(2, f"at endpoint location {text(location.text)}", location)
                for protocol in location.protocols:
                    self.line(2, f"via protocol {keyword(protocol)}", protocol)
                if location.rest:
                    self.verbatim(location.rest, 2)
        if node.conditions:
            self.line(1, f"under conditions {text(node.conditions)}", node.conditions)
        if node.rest:
            self.verbatim(node.rest, 1)

    def client(self, node: s.ApiClient) -> None:
        version = f" version {text(node.version)}" if node.version else ""
        self.line(0, f"API client {name(node.name)}{version}", node)
        for each in node.consumptions:
            self.line(1, f"consumes {name(each.contract)}", each)
            if each.provider:
                word = "through" if each.gateway else "from"
                self.line(2, f"{word} {name(each.provider)}", each.provider)
            if each.protocol:
                self.line(2, f"via protocol {keyword(each.protocol)}", each.protocol)

    def flow(self, node: s.Flow) -> None:
        version = f" version {text(node.version)}" if node.version else ""
        realizes = f" realizes {name(node.realizes)}" if node.realizes else ""
        kind = f" type {keyword(node.type)}" if node.type else ""
        self.line(0, f"flow {name(node.name)}{version}{realizes}{kind}", node)
        for step in node.steps:
            self.line(1, _step(step), step)
        for index, binding in enumerate(node.bindings):
            if index == 0:
                self.line(1, "binding to", binding.span.start - 1)
            word = "channel" if binding.channel else "endpoint"
            self.line(2, f"{word} type {name(binding.target)}", binding)
            for each in binding.steps:
                self.line(3, _step_binding(each), each)
            if binding.provider:
                self.line(3, f"provider {name(binding.provider)}", binding.provider)
        if node.technology:
            self.line(1, f"implemented as {keyword(node.technology)}", node.technology)

    def verbatim(self, node: s.Foreign | s.Verbatim, indent: int = 0) -> None:
        """Lines as they are in the source, indented anew."""
        line: list[Token] = []
        tokens = self.source.significant(node.span)
        for token in tokens:
            if line and "\n" in self.source.text[line[-1].end : token.start]:
                self._verbatim_line(indent, line)
                line = []
                indent = max(indent, 1)
            line.append(token)
        self._verbatim_line(indent, line)

    def _verbatim_line(self, indent: int, tokens: list[Token]) -> None:
        body = tokens[0].text
        for before, token in pairwise(tokens):
            body += (" " if token.start > before.end else "") + token.text
        self.line(indent, body, tokens[0].start)


def _short(indent: int, text: str) -> bool:
    return 2 * indent + len(text) <= WIDTH and "\n" not in text


def _signal(node: s.SignalType) -> str:
    return name(node.name) + (f" version {text(node.version)}" if node.version else "")


def _combined(node: s.Combined) -> str:
    parts = [name(node.names[0])]
    for operator, each in zip(node.operators, node.names[1:], strict=True):
        parts += ["+" if operator == "and" else operator, name(each)]
    return " ".join(parts)


def _step(node: s.Step) -> str:
    if node.events is None:
        actor = f" [ initiated by {text(node.actor)} ]" if node.actor else ""
        body = f"command {_combined(node.commands)}{actor}" if node.commands else ""
    else:
        word = "command" if node.commands and len(node.commands.names) == 1 else "commands"
        target = f"{word} {_combined(node.commands)}" if node.commands else ""
        target = f"flow {name(node.subflow)}" if node.subflow else target
        word = "event" if len(node.events.names) == 1 else "events"
        triggers = "triggers" if len(node.events.names) == 1 else "trigger"
        body = f"{word} {_combined(node.events)} {triggers} {target}"
    if node.emitted is None:
        return body
    word = "event" if len(node.emitted.names) == 1 else "events"
    return f"{body} emits {word} {_combined(node.emitted)}"


def flow_steps(node: s.Flow) -> list[str]:
    """The steps of a flow, as they are written."""
    return [_step(step) for step in node.steps]


def _step_binding(node: s.StepBinding) -> str:
    body = f"{'event' if node.event else 'command'} {name(node.signal)}"
    body += f" to {'operation' if node.operation else 'message'} {name(node.target)}"
    if node.mediation:
        body += f" with mediation from {name(node.mediation[0])} to {name(node.mediation[1])}"
    return body
