"""From text to syntax tree.

Hand-written recursive descent: one function per rule of the grammar. A mistake costs one declaration at
most: it is reported, and reading goes on at the next one.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dragoman.core.errors import ConfigurationError
from dragoman.language.diagnostic import Diagnostic
from dragoman.language.parsing.cursor import Fault, one_of, rule
from dragoman.language.parsing.flows import FlowRules
from dragoman.language.syntax import Api, Broken, Keyword, Member, Name, Text
from dragoman.language.tokens import END, WORD, Source, Span, tokenize
from dragoman.language.words import DIRECTIONS, VISIBILITIES


@dataclass(frozen=True)
class Parsed:
    """A source, its tree, and what is wrong with it. ``api`` is whole only without problems."""

    source: Source
    api: Api
    problems: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def parse(text: str, name: str = "model.mdsl") -> Parsed:
    """Read a model. Never raises, whatever the text."""
    with _no_collection():
        parser = Parser(tokenize(text, name))
        api = parser.service_specification()
        return Parsed(parser.source, api, tuple(parser.problems))


@contextmanager
def _no_collection() -> Iterator[None]:
    """A tree has no circles: looking for them while it grows would double the time it takes."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def parse_strictly(text: str, name: str = "model.mdsl") -> Parsed:
    """Read a model that must be free of syntax errors. Raises ``ConfigurationError`` with the first."""
    parsed = parse(text, name)
    if parsed.problems:
        problem = parsed.problems[0]
        place = parsed.source.place(problem.span.start)
        raise ConfigurationError(
            problem.message,
            code="language.syntax",
            file=name,
            line=place.line,
            column=place.column,
            next=f"{problem.fix.title}." if problem.fix else "See `dragoman model lint`.",
        )
    return parsed


class Parser(FlowRules):
    @rule(
        f"""'API' 'description' NAME
        (Version? & ('usage' 'context' ({one_of(VISIBILITIES)} | STRING) ('for' Directions)?)?
        & (('overview' | 'description') STRING)?) Declaration* 'IPA'?"""
    )
    def service_specification(self) -> Api:
        start = self.token.start
        name = Name(text="", span=Span(start, start))
        version: Text | None = None
        visibility: Keyword | None = None
        directions: tuple[Keyword, ...] = ()
        overview: Text | None = None
        try:
            self.expect("API", "description")
            name = self.name("the name of the API")
            while True:
                if self.at("version") and version is None:
                    version = self.version()
                elif self.at("usage") and visibility is None:
                    self.expect("usage", "context")
                    visibility = self.keyword(VISIBILITIES, ", ".join(VISIBILITIES), string=True)
                    directions = self.directions() if self.take("for") else ()
                elif overview is None and (self.take("overview") or self.take("description")):
                    overview = self.text("a description, as a string")
                else:
                    break
        except Fault:
            self.recover(self.index - 1)
        members, closed = self._members()
        return Api(
            name=name,
            version=version,
            visibility=visibility,
            directions=directions,
            overview=overview,
            members=members,
            closed=closed,
            span=self.since(start),
        )

    @rule("Direction ((',' | 'and') Direction)*")
    def directions(self) -> tuple[Keyword, ...]:
        found = [self.direction()]
        while self.take(",") or self.take("and"):
            found.append(self.direction())
        return tuple(found)

    @rule(one_of(DIRECTIONS) + " | STRING")
    def direction(self) -> Keyword:
        return self.keyword(DIRECTIONS, ", ".join(DIRECTIONS) + " or a string", string=True)

    def _members(self) -> tuple[tuple[Member, ...], bool]:
        members: list[Member] = []
        while self.token.kind != END:
            if self.at("IPA") and self.ahead().kind == END:
                self.advance()
                return tuple(members), True
            first, depth = self.index, self.depth
            try:
                members.append(self.declaration())
            except Fault:
                self.depth = depth
                broken = self._broken(first)
                self.recover(first)
                if broken is not None:
                    members.append(broken)
        return tuple(members), False

    @rule(
        """DataType | SignalTypes | Channel | MessageBroker | MessageEndpoint | ServiceEndpoint
        | ApiProvider | ApiClient | Flow | ForeignDeclaration"""
    )
    def declaration(self) -> Member:
        match self.token.text, self.ahead().text:
            case "data", _:
                return self.data_type()
            case "event" | "command", "type":
                return self.signal_types()
            case "channel", _:
                return self.channel()
            case "message", "broker":
                return self.message_broker()
            case "message", "endpoint":
                return self.message_endpoint()
            case "endpoint", _:
                return self.service_endpoint()
            case "API", "provider" if self.ahead(2).text == "implementation":
                return self.foreign_declaration()
            case "API", "provider":
                return self.api_provider()
            case "API", "client":
                return self.api_client()
            case "flow", _:
                return self.flow()
            case ("relation", "type") | ("SLA", "template") | ("API", "gateway") | ("scenario", _):
                return self.foreign_declaration()
        raise self.fault(
            ("data", "channel", "message", "flow", "event", "command", "endpoint", "API"),
            "a declaration such as 'data type', 'channel', 'message broker' or 'message endpoint'",
        )

    def _broken(self, first: int) -> Broken | None:
        """What is known of a declaration that could not be read."""
        tokens = self.tokens[first : first + 3]
        count = 1 if tokens[0].text in ("channel", "flow") else 2
        if len(tokens) <= count or tokens[count].kind != WORD or tokens[0].kind != WORD:
            return None
        name = tokens[count]
        return Broken(
            of=" ".join(token.text for token in tokens[:count]),
            name=Name(text=name.text.lstrip("^"), span=Span(name.start, name.end)),
            span=self.since(tokens[0].start),
        )
