"""The formatter: one form, the same meaning, no comment lost."""

from __future__ import annotations

from hypothesis import given, settings

from dragoman.language.formatter import format_text
from dragoman.language.parser import parse
from tests.language import ebnf


@settings(deadline=None, max_examples=150)
@given(ebnf.texts())
def test_formatting_keeps_the_meaning_and_is_done_in_one_go(text: str) -> None:
    once = format_text(text)
    assert parse(once).api == parse(text).api
    assert format_text(once) == once


@settings(deadline=None, max_examples=150)
@given(ebnf.texts())
def test_formatting_keeps_every_comment(text: str) -> None:
    assert _comments(format_text(text)) == _comments(text)


def _comments(text: str) -> list[str]:
    return sorted(comment.text.rstrip() for comment in parse(text).source.comments)


def test_old_dialects_become_the_canonical_one() -> None:
    text = """API description Hello description 'Says hello.'
data type Dto { id: ID<int>, "value": D<float> }
channel SayHello on path "/hello" description "d" of type PUBLISH_SUBSCRIBE
produces message M delivering payload Dto
message broker B exposes Hello at endpoint "amqp.example.com" via protocol AMQP, SayHello
at location "other" via protocol MQTT
message endpoint E of type SERRVICE_ACTIVATOR, COMPETEING_CONSUMER
serves as PROCESSING_RESOURCE and "other" role
uses channels: SayHello where consumed if "$message.payload#/id" == 42 AMQP, from B: SayHello
"""
    assert (
        format_text(text)
        == """API description Hello
  overview "Says hello."

data type Dto { "id": ID<int>, "value": D<float> }

channel SayHello
  of type PUBLISH_SUBSCRIBE
  description "d"
  on path "/hello"
  produces message M
    delivering payload Dto

message broker B
  exposes Hello
    at location "amqp.example.com"
    via protocol AMQP
  exposes SayHello
    at location "other"
    via protocol MQTT

message endpoint E
  of type SERVICE_ACTIVATOR, COMPETING_CONSUMER
  serves as PROCESSING_RESOURCE, "other"
  uses channels:
    SayHello
      where consumed if "$message.payload#/id" == 42 via protocol AMQP
  uses from B:
    SayHello
"""
    )


def test_comments_stay_beside_what_they_speak_of() -> None:
    text = """// a header

API description A // the name
// about the type
data type T {
  // the first
  "a": D<int>, // number
  "b": D<string> /* text */
}
// about the path
channel C
  // where it is
  on path "p"
  produces message M delivering payload T
// the end
"""
    assert (
        format_text(text)
        == """// a header

API description A  // the name

// about the type
data type T {
  // the first
  "a": D<int>,  // number
  "b": D<string>  /* text */
}

// about the path
channel C
  // where it is
  on path "p"
  produces message M
    delivering payload T

// the end
"""
    )


def test_long_structures_and_bindings_are_broken_over_lines() -> None:
    fields = ", ".join(f'"field{index}": D<string>' for index in range(8))
    text = f"""API description A
channel C on path "p" produces message M delivering payload {{ {fields} }}
bindings for Kafka {{ "topic": "t", "partitions": 12, "topicConfiguration": {{ "retention.ms": 604800000, \
"cleanup.policy": ["delete", "compact"] }} }}
"""
    formatted = format_text(text)
    assert '      "field0": D<string>,\n' in formatted
    assert max(map(len, formatted.splitlines())) <= 100
    assert format_text(formatted) == formatted
