"""Data types: atoms, lists, trees, forests, references."""

from __future__ import annotations

from dragoman.language.parsing.cursor import Cursor, one_of, rule
from dragoman.language.syntax import (
    Atomic,
    AtomicList,
    Cardinality,
    Choice,
    DataType,
    Forest,
    Generic,
    Keyword,
    Reference,
    SignalType,
    SignalTypes,
    Structure,
    Text,
    Tree,
)
from dragoman.language.tokens import STRING, WORD, Span, unquoted
from dragoman.language.words import BASIC_TYPES, ROLES

_CARDINALITIES = {each.value: each for each in Cardinality if each.value}
_OPENING = ("{", "(", "[", "<<")


class TypeRules(Cursor):
    @rule("'data' 'type' NAME Version? ElementStructure ('default' 'is' STRING)?")
    def data_type(self) -> DataType:
        start = self.expect("data", "type").start
        name = self.name("the name of the data type")
        version = self.version()
        structure = self.element_structure()
        default = None
        if self.take("default"):
            self.expect("is")
            default = self.text()
        return DataType(
            name=name, version=version, structure=structure, default=default, span=self.since(start)
        )

    @rule("('event' | 'command') 'type' SignalType (',' SignalType)*")
    def signal_types(self) -> SignalTypes:
        start = self.token.start
        event = self.take("event")
        if not event:
            self.expect("command")
        self.expect("type")
        types = [self.signal_type()]
        while self.take(","):
            types.append(self.signal_type())
        return SignalTypes(event=event, types=tuple(types), span=self.since(start))

    @rule("NAME Version? ElementStructure?")
    def signal_type(self) -> SignalType:
        start = self.token.start
        name = self.name("the name of the event or command type")
        version = self.version()
        structure = self.element_structure() if self.at_structure() else None
        return SignalType(name=name, version=version, structure=structure, span=self.since(start))

    def at_structure(self, stops: tuple[str, ...] = ()) -> bool:
        """Whether a structure starts here, where it may also be left out."""
        token = self.token
        if token.kind == STRING or token.text in _OPENING:
            return True
        return token.kind == WORD and token.text not in stops and not self.at_declaration()

    @rule("ParameterForest | ParameterTree | AtomicParameterList | SingleParameterNode")
    def element_structure(self) -> Structure:
        self.deeper()
        structure = self._structure()
        self.depth -= 1
        return structure

    def _structure(self) -> Structure:
        start = self.token.start
        stereotype = self.pattern_stereotype() if self.at("<<") else None
        name = self.element_name()
        match self.token.text if self.token.kind != STRING else "":
            case "{":
                return self.parameter_tree(start, stereotype, name)
            case "(":
                return self.atomic_parameter_list(start, stereotype, name)
            case "[":
                return self.parameter_forest(start, stereotype, name)
            case _:
                return self.single_parameter_node(start, stereotype, name)

    @rule("(STRING | NAME) ':'")
    def element_name(self) -> Text | None:
        token = self.token
        if self.ahead().text != ":" or token.kind not in (STRING, WORD):
            return None
        self.index += 2
        value = unquoted(token.text) if token.kind == STRING else token.text.lstrip("^")
        return Text(value=value, raw=token.text, span=Span(token.start, token.end))

    @rule("'<<' (NAME | STRING) '>>'")
    def pattern_stereotype(self) -> Keyword:
        self.expect("<<")
        token = self.token
        if token.kind not in (WORD, STRING):
            raise self.fault(("NAME", "STRING"), "the name of a pattern")
        self.advance()
        self.expect_mark(">>")
        quoted = token.kind == STRING
        return Keyword(
            text=unquoted(token.text) if quoted else token.text,
            quoted=quoted,
            written=token.text,
            span=Span(token.start, token.end),
        )

    @rule("'?' | '*' | '+' | '!'")
    def cardinality(self) -> Cardinality:
        found = _CARDINALITIES.get(self.token.text)
        if found is None or self.token.kind == STRING:
            return Cardinality.ONE
        self.advance()
        return found

    @rule("PatternStereotype? ElementName? '{' TreeNode ((',' | '|') TreeNode)* '}' Cardinality?")
    def parameter_tree(self, start: int, stereotype: Keyword | None, name: Text | None) -> Tree:
        items = self._items("{", "}")
        cardinality = self.cardinality()
        return Tree(
            items=items, name=name, stereotype=stereotype, cardinality=cardinality, span=self.since(start)
        )

    @rule("SingleParameterNode | AtomicParameterList | ParameterTree")
    def tree_node(self) -> Structure:
        return self.element_structure()

    @rule("PatternStereotype? ElementName? '(' ListNode ((',' | '|') ListNode)* ')' Cardinality?")
    def atomic_parameter_list(self, start: int, stereotype: Keyword | None, name: Text | None) -> AtomicList:
        items = self._items("(", ")")
        cardinality = self.cardinality()
        return AtomicList(
            items=items, name=name, stereotype=stereotype, cardinality=cardinality, span=self.since(start)
        )

    @rule("AtomicParameter | GenericParameter | TypeReference")
    def list_node(self) -> Structure:
        return self.element_structure()

    def _items(self, opening: str, closing: str) -> tuple[Structure, ...]:
        """Nodes parted by commas; those parted by bars become one choice."""
        read = self.tree_node if opening == "{" else self.list_node
        self.expect(opening)
        items: list[Structure] = []
        options = [read()]
        while True:
            bar = self.take("|")
            if not bar:
                items.append(_choice(options))
                options = []
                if not self.take(","):
                    if not self._item_follows():
                        break
                    self.missing(",")
            options.append(read())
        self.expect_mark(closing)
        return tuple(items)

    def _item_follows(self) -> bool:
        """A comma was forgotten, if here stands what only a next element can start with."""
        if self.token.kind == STRING or self.at("<<"):
            return True
        return self.token.kind == WORD and self.ahead().text == ":" and not self.at_declaration()

    @rule("PatternStereotype? ElementName? '[' ForestNode (';' ForestNode)* ']' Cardinality?")
    def parameter_forest(self, start: int, stereotype: Keyword | None, name: Text | None) -> Forest:
        self.expect("[")
        items = [self.forest_node()]
        while self.take(";") or self.take(","):
            items.append(self.forest_node())
        self.expect_mark("]")
        cardinality = self.cardinality()
        return Forest(
            items=tuple(items),
            name=name,
            stereotype=stereotype,
            cardinality=cardinality,
            span=self.since(start),
        )

    @rule("ParameterTree | TypeReference")
    def forest_node(self) -> Structure:
        return self.element_structure()

    @rule("AtomicParameter | GenericParameter | TypeReference")
    def single_parameter_node(self, start: int, stereotype: Keyword | None, name: Text | None) -> Structure:
        token = self.token
        if token.kind == STRING and name is None:
            return self.generic_parameter(start, stereotype, name)
        if token.kind != WORD or self.at_new_declaration():
            raise self.fault(
                ("{", "(", "[", *ROLES, "P"), "an element such as 'D<string>', a type's name, or '{'"
            )
        if token.text == "P":
            return self.generic_parameter(start, stereotype, name)
        if token.text in ROLES:
            return self.atomic_parameter(start, stereotype, name)
        return self.type_reference(start, stereotype, name)

    @rule("PatternStereotype? (STRING | ElementName? 'P') Cardinality?")
    def generic_parameter(self, start: int, stereotype: Keyword | None, name: Text | None) -> Generic:
        placeholder = self.take("P")
        if not placeholder:
            name = self.text()
        cardinality = self.cardinality()
        return Generic(
            name=name,
            placeholder=placeholder,
            stereotype=stereotype,
            cardinality=cardinality,
            span=self.since(start),
        )

    @rule("PatternStereotype? ElementName? ParameterRole ('<' BasicType '>')? Cardinality?")
    def atomic_parameter(self, start: int, stereotype: Keyword | None, name: Text | None) -> Atomic:
        role_start = self.token.start
        role = self.parameter_role()
        basic = None
        if self.take("<"):
            basic = self.basic_type()
            self.expect_mark(">")
        role_span = self.since(role_start)
        cardinality = self.cardinality()
        return Atomic(
            name=name,
            role=role,
            basic=basic,
            role_span=role_span,
            stereotype=stereotype,
            cardinality=cardinality,
            span=self.since(start),
        )

    @rule(one_of(ROLES))
    def parameter_role(self) -> str:
        return self.keyword(ROLES, "a role").text

    @rule(one_of(BASIC_TYPES))
    def basic_type(self) -> str:
        return self.keyword(BASIC_TYPES, "a basic type: " + ", ".join(BASIC_TYPES)).text

    @rule("PatternStereotype? ElementName? NAME Cardinality?")
    def type_reference(self, start: int, stereotype: Keyword | None, name: Text | None) -> Reference:
        type_name = self.name("a type")
        cardinality = self.cardinality()
        return Reference(
            name=name,
            type=type_name,
            stereotype=stereotype,
            cardinality=cardinality,
            span=self.since(start),
        )


def _choice(options: list[Structure]) -> Structure:
    if len(options) == 1:
        return options[0]
    return Choice(options=tuple(options), span=Span(options[0].span.start, options[-1].span.end))
