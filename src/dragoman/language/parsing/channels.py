"""Channels: their types, paths, messages, conditions and bindings."""

from __future__ import annotations

from dragoman.language.parsing.cursor import one_of, rule
from dragoman.language.parsing.types import TypeRules
from dragoman.language.syntax import (
    Array,
    Bindings,
    Channel,
    Content,
    Entry,
    Expires,
    Keyword,
    Message,
    Name,
    Object,
    Parameter,
    Path,
    Pointed,
    Scalar,
    Structure,
    Text,
    Value,
    Where,
)
from dragoman.language.tokens import NUMBER, STRING, WORD, Span
from dragoman.language.words import CHANNEL_TYPES, GUARANTEES, MESSAGE_TYPES, PROTOCOLS, TYPE_SYSTEMS

_POINTED = ("CORRELATION_ID", "SEQUENCE_ID", "RETURN_ADDRESS")
_LARGEST_INTEGER = 18


class _Head:
    """The clauses before the message, which may stand in any order, each once."""

    def __init__(self) -> None:
        self.types: tuple[Keyword, ...] = ()
        self.guarantee: Keyword | None = None
        self.description: Text | None = None
        self.path: Path | None = None
        self.dead_letters: Name | None = None
        self.invalid_messages: Name | None = None


class ChannelRules(TypeRules):
    @rule("'channel' NAME (OneWayChannel | RequestReplyChannel)")
    def channel(self) -> Channel:
        start = self.expect("channel").start
        name = self.name("the name of the channel")
        head = self._head()
        if self.at("request") or self.at("reply"):
            if head.path is not None:
                self.report(
                    "A request-reply channel has a path for each of its messages, not one for itself.",
                    head.path.span,
                    ("request",),
                )
            direction, messages = self.request_reply_channel()
        else:
            direction, messages = self.one_way_channel(head)
        return Channel(
            name=name,
            types=head.types,
            guarantee=head.guarantee,
            description=head.description,
            dead_letters=head.dead_letters,
            invalid_messages=head.invalid_messages,
            direction=direction,
            messages=messages,
            span=self.since(start),
        )

    def _head(self) -> _Head:
        head, seen = _Head(), set[str]()
        while True:
            word, here = self.token.text, self.here()
            if self.at("of"):
                head.types = self.channel_types()
            elif self.at("delivery"):
                head.guarantee = self.delivery_guarantee()
            elif self.at("description"):
                head.description = self.description()
            elif self.at("on", "path"):
                self.expect("on")
                head.path = self.channel_path()
            elif self.at("dead", "letters"):
                head.dead_letters = self.dead_letters()
            elif self.at("invalid", "messages"):
                head.invalid_messages = self.invalid_messages()
            else:
                return head
            if word in seen:
                self.report(f"The channel has '{word}' twice.", here, ())
            seen.add(word)

    @rule("'of' 'type' ChannelType (',' ChannelType)*")
    def channel_types(self) -> tuple[Keyword, ...]:
        self.expect("of", "type")
        types = [self.channel_type()]
        while self.take(",") or self.take("and"):
            types.append(self.channel_type())
        return tuple(types)

    @rule(one_of(CHANNEL_TYPES))
    def channel_type(self) -> Keyword:
        return self.keyword(CHANNEL_TYPES, "a channel type: " + ", ".join(CHANNEL_TYPES))

    @rule(f"'delivery' 'guarantee' ({one_of(GUARANTEES)})")
    def delivery_guarantee(self) -> Keyword:
        self.expect("delivery", "guarantee")
        return self.keyword(GUARANTEES, "a guarantee: " + ", ".join(GUARANTEES))

    @rule("'dead' 'letters' 'to' NAME")
    def dead_letters(self) -> Name:
        self.expect("dead", "letters", "to")
        return self.name("a dead letter channel")

    @rule("'invalid' 'messages' 'to' NAME")
    def invalid_messages(self) -> Name:
        self.expect("invalid", "messages", "to")
        return self.name("an invalid message channel")

    @rule(
        """(ChannelTypes? & DeliveryGuarantee? & Description? & DeadLetters? & InvalidMessages?
        & 'on' ChannelPath) ('accepts' 'and' 'produces' | 'accepts' | 'produces')
        'message' NAME Description? Content WhereClauses? ChannelBindings*"""
    )
    def one_way_channel(self, head: _Head) -> tuple[str, tuple[Message, ...]]:
        if head.path is None:
            if self.token.kind == WORD and self.token.text in ("accepts", "produces"):
                raise self.fault(("on",), "'on path' before the message")
            raise self.fault(("of", "delivery", "description", "on", "request"))
        direction = self._direction()
        start = self.expect("message").start
        name = self.name("the name of the message")
        description = self.description()
        content = self.content()
        where = self.where_clauses()
        bindings = self._bindings()
        message = Message(
            part="one-way",
            name=name,
            description=description,
            path=head.path,
            content=content,
            where=where,
            bindings=bindings,
            span=self.since(start),
        )
        return direction, (message,)

    def _direction(self) -> str:
        if self.take("accepts"):
            if self.take("and"):
                self.expect("produces")
                return "accepts and produces"
            return "accepts"
        if self.take("produces"):
            return "produces"
        raise self.fault(("accepts", "produces"))

    @rule(
        """(ChannelTypes? & DeliveryGuarantee? & Description? & DeadLetters? & InvalidMessages?)
        (RequestMessage ReplyMessage | ReplyMessage RequestMessage)"""
    )
    def request_reply_channel(self) -> tuple[str, tuple[Message, ...]]:
        if self.at("reply"):
            messages = (self.reply_message(), self.request_message())
        else:
            messages = (self.request_message(), self.reply_message())
        return "request-reply", messages

    @rule(
        """'request' 'message' NAME (Description? & 'on' ChannelPath) Content
        WhereClauses? ChannelBindings*"""
    )
    def request_message(self) -> Message:
        return self._leg("request")

    @rule(
        """'reply' 'message' NAME (Description? & 'on' ChannelPath) Content
        WhereClauses? ChannelBindings*"""
    )
    def reply_message(self) -> Message:
        return self._leg("reply")

    def _leg(self, part: str) -> Message:
        start = self.expect(part, "message").start
        name = self.name("the name of the message")
        description = self.description()
        self.expect("on")
        path = self.channel_path()
        description = description or self.description()
        content = self.content()
        where = self.where_clauses()
        bindings = self._bindings()
        return Message(
            part=part,
            name=name,
            description=description,
            path=path,
            content=content,
            where=where,
            bindings=bindings,
            span=self.since(start),
        )

    @rule("'path' STRING ('with' PathParameter (',' PathParameter)*)?")
    def channel_path(self) -> Path:
        start = self.expect("path").start
        text = self.text("the path, as a string")
        parameters: list[Parameter] = []
        if self.take("with"):
            parameters.append(self.path_parameter())
            while self.take(","):
                parameters.append(self.path_parameter())
        return Path(text=text, parameters=tuple(parameters), span=self.since(start))

    @rule("NAME ':' BasicType (',' STRING)?")
    def path_parameter(self) -> Parameter:
        start = self.token.start
        name = self.name("the name of a parameter")
        self.expect_mark(":")
        basic = self.basic_type()
        description = None
        if self.at(",") and self.ahead().kind == STRING:
            self.advance()
            description = self.text()
        return Parameter(name=name, basic=basic, description=description, span=self.since(start))

    @rule(
        f"""('expecting' | 'delivering') ('headers' ElementStructure ('expecting' | 'delivering')?)?
        'payload' ElementStructure ('structured' 'as' TypeSystem)? ('as' ({one_of(MESSAGE_TYPES)}))?"""
    )
    def content(self) -> Content:
        start = self.token.start
        verb = self._verb()
        headers: Structure | None = None
        payload_verb = None
        if self.take("headers"):
            headers = self.element_structure()
            if self.at("expecting") or self.at("delivering"):
                payload_verb = self._verb()
                payload_verb = payload_verb if payload_verb.text != verb.text else None
        self.expect("payload")
        payload = self.element_structure()
        type_system = self.type_system() if self.take("structured", "as") else None
        message_type = None
        if self.take("as"):
            message_type = self.keyword(MESSAGE_TYPES, "a message type: " + ", ".join(MESSAGE_TYPES))
        return Content(
            verb=verb,
            headers=headers,
            payload_verb=payload_verb,
            payload=payload,
            type_system=type_system,
            message_type=message_type,
            span=self.since(start),
        )

    def _verb(self) -> Keyword:
        return self.keyword(("expecting", "delivering"), "'expecting' or 'delivering'")

    @rule(one_of(TYPE_SYSTEMS) + " | STRING")
    def type_system(self) -> Keyword:
        return self.keyword(TYPE_SYSTEMS, "a type system", string=True)

    @rule("'where' WhereClause (',' WhereClause)*")
    def where_clauses(self) -> tuple[Where, ...]:
        clauses: list[Where] = []
        if self.take("where"):
            clauses.append(self.where_clause())
            while self.take(","):
                clauses.append(self.where_clause())
        return tuple(clauses)

    @rule(
        """'MESSAGE_EXPIRES' 'in' INT ('s' | 'm')
        | ('CORRELATION_ID' | 'SEQUENCE_ID' | 'RETURN_ADDRESS') 'is' STRING"""
    )
    def where_clause(self) -> Where:
        start = self.token.start
        if self.take("MESSAGE_EXPIRES"):
            self.expect("in")
            amount = self.integer()
            unit = self.keyword(("s", "m"), "'s' for seconds or 'm' for minutes").text
            return Expires(amount=amount, unit=unit, span=self.since(start))
        word = self.keyword(("MESSAGE_EXPIRES", *_POINTED), "MESSAGE_EXPIRES, " + ", ".join(_POINTED)).text
        self.expect("is")
        pointer = self.text("a pointer such as '\"$message.payload#/id\"'")
        return Pointed(word=word, pointer=pointer, span=self.since(start))

    def _bindings(self) -> tuple[Bindings, ...]:
        found = []
        while self.at("bindings"):
            found.append(self.channel_bindings())
        return tuple(found)

    @rule("'bindings' 'for' Protocol BindingObject")
    def channel_bindings(self) -> Bindings:
        start = self.expect("bindings", "for").start
        protocol = self.protocol()
        return Bindings(protocol=protocol, object=self.binding_object(), span=self.since(start))

    @rule(one_of(PROTOCOLS) + " | STRING")
    def protocol(self) -> Keyword:
        return self.keyword(PROTOCOLS, "a protocol: " + ", ".join(PROTOCOLS) + ", or a string", string=True)

    @rule("'{' (BindingEntry (',' BindingEntry)*)? '}'")
    def binding_object(self) -> Object:
        start = self.token.start
        self.deeper()
        self.expect("{")
        entries: list[Entry] = []
        while self.token.kind in (STRING, WORD) and not self.at_declaration():
            entries.append(self.binding_entry())
            if not self.take(",") and self.token.kind == STRING:
                self.missing(",")
        self.expect_mark("}")
        self.depth -= 1
        return Object(entries=tuple(entries), span=self.since(start))

    @rule("(STRING | NAME) ':' BindingValue")
    def binding_entry(self) -> Entry:
        start = self.token.start
        if self.token.kind == STRING:
            key = self.text()
        else:
            name = self.name()
            key = Text(value=name.text, raw=name.text, span=name.span)
        self.expect_mark(":")
        return Entry(key=key, value=self.binding_value(), span=self.since(start))

    @rule("STRING | NUMBER | 'true' | 'false' | BindingObject | '[' (BindingValue (',' BindingValue)*)? ']'")
    def binding_value(self) -> Value:
        token = self.token
        if token.kind == STRING:
            return self.text()
        if self.at("{"):
            return self.binding_object()
        if self.at("["):
            return self._array()
        span = Span(token.start, token.end)
        if token.kind == NUMBER:
            self.advance()
            return Scalar(value=number_of(token.text), raw=token.text, span=span)
        if self.take("true") or self.take("false"):
            return Scalar(value=token.text == "true", raw=token.text, span=span)
        raise self.fault(("STRING", "NUMBER", "true", "false", "{", "["), "a value")

    def _array(self) -> Array:
        start = self.token.start
        self.deeper()
        self.expect("[")
        items: list[Value] = []
        while not self.at("]"):
            items.append(self.binding_value())
            if not self.take(","):
                break
        self.expect_mark("]")
        self.depth -= 1
        return Array(items=tuple(items), span=self.since(start))


def number_of(text: str) -> int | float:
    whole = text.lstrip("-").isdigit() and len(text) <= _LARGEST_INTEGER
    return int(text) if whole else float(text)
