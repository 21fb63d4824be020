"""The parser: what it accepts, what it says about mistakes, and how it goes on after one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.errors import ConfigurationError
from dragoman.language import syntax
from dragoman.language.diagnostic import apply
from dragoman.language.parser import Parsed, parse, parse_strictly
from dragoman.language.parsing.cursor import MAX_DEPTH
from dragoman.language.tokens import tokenize
from tests.language import ebnf

HEAD = "API description Demo\n"
CHANNEL = 'channel C on path "c" produces message M delivering payload D<int>\n'


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="aD{}()[]<>\"'/*\\\n ,:|?+!=-^.1$é", max_size=80) | st.text(max_size=60))
def test_tokens_joined_are_the_text_again(text: str) -> None:
    assert "".join(token.text for token in tokenize(text).tokens) == text


@settings(deadline=None, max_examples=200)
@given(ebnf.texts(), st.integers(0, 2**32))
def test_no_damage_to_a_model_crashes_the_parser(text: str, seed: int) -> None:
    random = Random(seed)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(text) + 1)
        damage = random.choice(['"', "{", "}", "channel", "/*", ",", "$", ""])
        text = text[:at] + damage + text[at + random.randrange(9) :]
    parsed = parse(text)
    assert all(0 <= problem.span.start <= problem.span.end <= len(text) for problem in parsed.problems)
    starts = [problem.span.start for problem in parsed.problems]
    assert starts == sorted(set(starts)), "each mistake is told once, in order"


def test_a_whole_model_becomes_a_typed_tree() -> None:
    api = parse_strictly(
        HEAD
        + """data type Order version "2" {
  "id": ID<int>, "lines": { "sku": D<string> }+, "note": D? | "memo": P
}
channel Orders of type POINT_TO_POINT, GUARANTEED_DELIVERY delivery guarantee AT_LEAST_ONCE
  dead letters to Dead
  on path "orders/${shop}" with shop: int, "The shop", till: string
  accepts message Placed expecting headers { "trace": D<string> } payload Order as COMMAND_MESSAGE
  where CORRELATION_ID is "$message.payload#/id", MESSAGE_EXPIRES in 2m
"""
    ).api
    order, orders = api.members
    assert isinstance(order, syntax.DataType) and isinstance(order.structure, syntax.Tree)
    identifier, lines, choice = order.structure.items
    assert isinstance(identifier, syntax.Atomic) and (identifier.role, identifier.basic) == ("ID", "int")
    assert lines.cardinality is syntax.Cardinality.SOME
    assert isinstance(choice, syntax.Choice) and len(choice.options) == 2
    assert isinstance(orders, syntax.Channel) and orders.dead_letters is not None
    message = orders.messages[0]
    assert [parameter.name.text for parameter in message.path.parameters] == ["shop", "till"]
    assert message.expires is not None and message.expires.seconds == 120
    correlation = message.pointed("CORRELATION_ID")
    assert correlation is not None and correlation.pointer.value == "$message.payload#/id"


def test_each_node_knows_its_piece_of_the_source() -> None:
    text = HEAD + CHANNEL
    channel = parse_strictly(text).api.members[0]
    assert isinstance(channel, syntax.Channel)
    assert text[slice(*channel.span)] == CHANNEL.rstrip()
    assert text[slice(*channel.name.span)] == "C"
    assert text[slice(*channel.messages[0].content.payload.span)] == "D<int>"


@pytest.mark.parametrize(
    "text",
    [
        'data type L ( "identifier": ID<int>, "listOfFloats": D<float>* )',
        'data type T { "a": { "b": { "c": D<float>+, "ref": X } }? }',
        'data type F [ { "p": D<string>, "l": ( "r": A, "n": D<int> ), "s": { P } }; "t": { "x": D } ]',
        'data type S <<Embedded_Entity>> "customerId": ID<int>',
        "data type Page (D* | L*)",
        'data type J "tbc"',
        'data type V version "1" D<bool> default is "true"',
        'channel C request message Q on path "q" expecting payload { requestId: ID<int>, content: P } '
        'reply message R on path "r" delivering headers H payload X',
        'channel C description "d" on path "p" accepts and produces message M delivering payload P',
        'channel C on path "p" description "d" produces message M description "m" delivering payload P',
        "message broker B exposes Demo at endpoint 'x' via protocol AMQP",
        'message broker B exposes A, B at location "x" via protocol MQTT bindings { "will": { "qos": 2 } } '
        'policy P realized using API_KEY in "$message.header#/k", C at location "y" via protocol "custom"',
        "message endpoint E uses",
        "message endpoint E of type SERRVICE_ACTIVATOR serves as PROCESSING_RESOURCE and 'x' "
        "uses channels: A where all subscriptions are durable, B from X: C AMQP",
        "message endpoint E uses channels: A via protocol HTTP provides from X: B",
        'event type E1, E2 { "a": D<int> } command type C1 flow F type APPLICATION_FLOW '
        'event E1 + E2 triggers commands C1 x C2 command C1 [ initiated by "me" ] emits event E1 '
        "event E1 triggers flow G emits events E1 or E2 "
        "binding to channel type Ch event E1 to message M provider B implemented as APACHE_CAMEL_ROUTE",
        'endpoint type E version "1" serves as INFORMATION_HOLDER_RESOURCE role exposes operation find '
        "with responsibility RETRIEVAL_OPERATION in REQUEST_REPLY conversation expecting payload D<string> "
        'delivering payload X* structured as MAP_TYPE reporting error "Not Found": D<bool> error Gone D<int> '
        'transitions from "a" to "b" emitting event E1 compensated by undo protected by policy P',
        'API provider P offers E at endpoint location "http://x" via protocol HTTP\n'
        'binding resource Home at "/" operation find to GET element "x" realized as QUERY parameter\n'
        'with endpoint SLA type QUANTITATIVE objective o "fast" 5 seconds\n'
        'under conditions "none"\nprovider governance TWO_IN_PRODUCTION',
        "API client K consumes E from P via protocol HTTP",
        'scenario S type BUSINESS_API story T when "x" a "y" wants to "z" yielding "w"',
    ],
)
def test_every_dialect_is_read(text: str) -> None:
    assert not parse(HEAD + text).problems


def first(parsed: Parsed) -> tuple[int, int, str]:
    problem = parsed.problems[0]
    return (*parsed.source.place(problem.span.start), problem.message)


@pytest.mark.parametrize(
    ("text", "line", "column", "said", "fixed"),
    [
        ('data type A { "x": D<int> "y": D<int> }', 2, 27, "Expected ','", 'D<int>, "y"'),
        ('data type A { "x": D<int>', 2, 26, "Expected '}', found the end of the file", "D<int>}"),
        ('data type A { "x": D<integer> }', 2, 22, "a basic type", "D<int>"),
        ('channel C on path "p" prodces message M delivering payload D', 2, 23, "'produces'", "produces"),
        ('channel C on path "p" produces mesage M delivering payload D', 2, 32, "'message'", " message "),
        ("channel C of type PUBLISH_SUBSCRIB", 2, 19, "a channel type", "PUBLISH_SUBSCRIBE"),
        ('channel C on path "p', 2, 19, "not closed", '"p"'),
        ("channel 12", 2, 9, "the name of the channel", None),
        ("channel C produces message M", 2, 11, "'on path'", None),
        ("chanel C", 2, 1, "a declaration", "channel C"),
        ("/* open", 2, 1, "not closed", "/* open */"),
        ('message broker B exposes A at location "x"', 2, 43, "'via'", None),
    ],
)
def test_a_mistake_is_told_once_with_its_place_and_fix(
    text: str, line: int, column: int, said: str, fixed: str | None
) -> None:
    parsed = parse(HEAD + text)
    assert len(parsed.problems) == 1
    assert first(parsed)[:2] == (line, column)
    assert said in first(parsed)[2]
    fix = parsed.problems[0].fix
    if fixed is None:
        assert fix is None
    else:
        assert fix is not None and fixed in apply(HEAD + text, [fix])


def test_two_mistakes_cost_two_declarations_and_no_more() -> None:
    parsed = parse(HEAD + "data type A {\n" + CHANNEL + "channel D on oops\n" + CHANNEL.replace("C", "E"))
    assert len(parsed.problems) == 2
    kinds = [
        (type(member).__name__, member.name.text) for member in parsed.api.members if hasattr(member, "name")
    ]
    assert kinds == [("Broken", "A"), ("Channel", "C"), ("Broken", "D"), ("Channel", "E")]


def test_nesting_beyond_the_limit_is_an_error() -> None:
    fine = "data type A " + "{" * (MAX_DEPTH - 1) + "P" + "}" * (MAX_DEPTH - 1)
    assert not parse(HEAD + fine).problems
    parsed = parse(HEAD + "data type A " + "{" * 5000 + "P" + "}" * 5000 + "\n" + CHANNEL)
    assert [problem.message for problem in parsed.problems] == [
        f"This is nested deeper than {MAX_DEPTH} levels."
    ]
    assert isinstance(parsed.api.members[-1], syntax.Channel)


@pytest.mark.parametrize(
    "text",
    [
        "\\'\n" * 100_000,
        "/" * 200_000,
        '"' * 99_999,
        "{" * 100_000,
        'data type A {"x": ' * 20_000,
        "/*" * 99_999,
    ],
)
def test_hostile_input_is_refused_in_linear_time(text: str) -> None:
    assert parse(text).problems


def test_reading_strictly_names_file_line_and_next_step() -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_strictly("API description A\ndata type X { ", "shop.mdsl")
    assert raised.value.code == "language.syntax"
    assert dict(raised.value.where) == {"file": "shop.mdsl", "line": 2, "column": 15}
