"""Half of a character makes no schema, in any format, and each says so in the same way."""

from __future__ import annotations

import pytest

from dragoman.core.errors import InvalidSchema
from dragoman.core.loading import FORMATS, load
from dragoman.registry.limits import Limits

TEXTS = {
    "AVRO": '{"type": "string",\n "doc": "%s"}',
    "JSON": '{"type": "string",\n "title": "%s"}',
    "PROTOBUF": 'syntax = "proto3";\n// "%s"\nmessage M { int32 a = 1; }',
    "THRIFT": '// A\n// "%s"\nstruct S { 1: string a }',
}
RAW = ["\ud800", "a\udfff", "\udc00\ud800", "\U0001f600\udbff"]
ESCAPED = ["\\ud800", "a\\uDFFF", "\\udc00\\ud800", "\\ud83d\\ude00\\udbff"]


@pytest.mark.parametrize("half", RAW)
@pytest.mark.parametrize("type", TEXTS)
def test_half_a_character_is_refused_with_its_place(type: str, half: str) -> None:
    text = TEXTS[type] % half
    for check in (load(FORMATS, type)().parse, lambda text: Limits().check_schema(type, text, ())):
        with pytest.raises(InvalidSchema, match="half of a character") as refused:
            check(text)
        assert refused.value.code == "schema.invalid.characters"
        assert refused.value.where["line"] == 2
        column = int(str(refused.value.where["column"]))
        assert "\ud800" <= text.split("\n")[1][column - 1] <= "\udfff"


@pytest.mark.parametrize("half", ESCAPED)
@pytest.mark.parametrize("type", ["AVRO", "JSON"])
def test_half_a_character_that_is_escaped_is_refused(type: str, half: str) -> None:
    with pytest.raises(InvalidSchema, match="half of a character") as refused:
        load(FORMATS, type)().parse(TEXTS[type] % half)
    assert refused.value.code == "schema.invalid.characters"


@pytest.mark.parametrize("whole", ["\U0001f600", "\\ud83d\\ude00", "\\\\ud800"])
@pytest.mark.parametrize("type", ["AVRO", "JSON"])
def test_a_whole_character_is_accepted(type: str, whole: str) -> None:
    load(FORMATS, type)().parse(TEXTS[type] % whole)
