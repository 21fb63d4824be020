"""Reading Thrift texts: what is accepted keeps its meaning, the rest names its place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.thrift.strategies import Thrift, documents

from dragoman.core.errors import InvalidSchema
from dragoman.formats.thrift import Protocol, ThriftFormat

FORMAT = ThriftFormat()
SHARED = "enum Unit { G = 1, KG = 2 } typedef list<Unit> Units const i32 MAX = 7 service Base {}"
EVERYTHING = """
# A comment.
namespace py shop
namespace * com.shop (kind = "x")
include "lib/shared.thrift"
cpp_include "<map>"
/** Colors. */
enum Color { RED, GREEN = 5; BLUE (note = "b") } (a, b = "c")
typedef map<string, list<Ints>> Table
typedef list<i32> (cpp.type = "v") Ints
const i32 LIMIT = 0x10
const map<string, double> RATES = {"a": 1, 'b': -2.5e3}
const Item FIRST = {"sku": "x\\"\\n", "size": LIMIT}
union Pay { 1: string card; 2: i64 cash }
struct Item { 1: required string sku, 2: optional i16 size = 3; 3: shared.Units units = [shared.Unit.KG] }
exception Oops { 1: string why }
service Shop extends shared.Base {
  oneway void ping(1: i32 x),
  Item get(1: string sku, 2: byte kind) throws (1: Oops oops) (timeout = "5")
}
struct Order {
  1: required i64 id
  2: list<Item> items = []
  3: set<binary> keys; 4: bool ok = true
  5: optional Order& parent
  6: Color color = Color.GREEN
  7: Color other = 6
  8: Table table
  9: uuid key = "00000000-0000-0000-0000-000000000001"
  10: i32 most = shared.MAX
  11: Item item = FIRST
  12: map cpp_type "m" <i32, Pay> pays
} (dragoman.root = "true", dragoman.protocol = "binary", dragoman.reserved = "20 old, 21")
struct Last { 1: double d = 1 }
"""


def test_everything_in_the_language_is_read_and_printed() -> None:
    references = {"lib/shared.thrift": FORMAT.parse(SHARED)}
    schema = FORMAT.parse(EVERYTHING, references)
    assert (schema.name, schema.protocol) == ("com.shop.Order", Protocol.BINARY)
    for level in (1, 2):
        again = FORMAT.parse(schema.normalised(level), references)
        assert again.normalised(level) == schema.normalised(level)
        assert again.fingerprint == schema.fingerprint
    assert FORMAT.parse(schema.normalised(1), references).document == schema.document
    fields = {field.name: field.initial for field in schema.root.fields} if schema.root else {}
    assert (fields["color"], fields["other"], fields["most"]) == ("GREEN", "BLUE", 7)
    assert fields["item"] == {"sku": 'x"\n', "size": 16}


def test_the_root_is_the_marked_struct_or_the_last_one() -> None:
    assert FORMAT.parse("struct A {} struct B {} enum C { X }").name == "B"
    assert FORMAT.parse('struct A {} (dragoman.root = "true") struct B {}').name == "A"
    assert FORMAT.parse("enum C { X }").name == ""


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("struct A {\n  string a }", 2, 3, "no id"),
        ("struct A { 1: string a, 1: i32 b }", 1, 25, "already used by 'a'"),
        ("struct A { 1: string a, 2: i32 a }", 1, 25, "defined twice"),
        ("struct A {} enum A { X }", 1, 18, "defined twice"),
        ("struct A { 1: Foo a }", 1, 15, "'Foo' is not defined"),
        ("struct A { 1: x.Y a }", 1, 15, 'Include "x.thrift"'),
        ("struct A { 0: i32 a }", 1, 12, "not positive"),
        ("struct A { -1: i32 a }", 1, 12, "not positive"),
        ("struct A { 40000: i32 a }", 1, 12, "16 bits"),
        ("struct A { 1: i32 a = 'x' }", 1, 12, "does not fit"),
        ("struct A { 1: i8 a = 200 }", 1, 12, "does not fit"),
        ("struct A { 1: E e = 3 } enum E { X }", 1, 12, "does not fit"),
        ("typedef A B typedef B A", 1, 11, "defined by itself"),
        ("const i32 A = B const i32 B = A", 1, 15, "defined by itself"),
        ("enum E {}", 1, 6, "no members"),
        ("enum E { A, A }", 1, 13, "defined twice"),
        ("enum E { A = 2147483648 }", 1, 14, "32 bits"),
        ("enum E { A = 2147483647, B }", 1, 26, "no number left"),
        ("struct A { 1: i32 struct }", 1, 19, "cannot be"),
        ("struct A { 1: void a }", 1, 15, "not a type"),
        ('include "q.thrift"', 1, 1, "not known"),
        ("union U { 1: required i32 a }", 1, 11, "cannot be required"),
        ('struct A { 1: i32 a } (dragoman.reserved = "1 a")', 1, 12, "reserved"),
        ('struct A {} (dragoman.reserved = "x")', 1, 8, "not a list of ids"),
        ('struct A {} (dragoman.protocol = "json")', 1, 8, "not a protocol"),
        ("struct A {} (dragoman.root) struct B {} (dragoman.root)", 1, 36, "second root"),
        ("service S extends T {}", 1, 9, "not defined"),
        ("struct A {", 1, 10, "never closed"),
        ("struct A { 1: list<i32 a }", 1, 24, "Expected '>'"),
        ("struct A { 1: i32 a = 1x }", 1, 23, "not a number"),
        ('namespace py "a', 1, 14, "not closed"),
        ("/* never", 1, 1, "never closed"),
        ("@", 1, 1, "no meaning"),
        ("senum X {}", 1, 1, "out of use"),
        (" \n ", 1, 1, "empty"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, line: int, column: int, what: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        FORMAT.parse(text)
    assert what in str(caught.value)
    assert (caught.value.where["line"], caught.value.where["column"]) == (line, column)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    for text in (
        "struct A { 1: " + "list<" * 5000,
        "const i32 A = " + "[" * 5000,
        "const i32 A = " + "{1:" * 5000,
    ):
        with pytest.raises(InvalidSchema):
            FORMAT.parse(text)


def test_constants_that_multiply_are_refused() -> None:
    lines, type = ["const list<i32> c0 = [1, 1]"], "list<i32>"
    for level in range(1, 20):
        type = f"list<{type}>"
        lines.append(f"const {type} c{level} = [c{level - 1}, c{level - 1}, c{level - 1}]")
    with pytest.raises(InvalidSchema, match="values"):
        FORMAT.parse("\n".join(lines))


@settings(deadline=None, max_examples=100)
@given(documents)
def test_printing_and_parsing_give_the_same_document(document: Thrift) -> None:
    schema = FORMAT.parse(document.text)
    again = FORMAT.parse(schema.normalised(1))
    assert again.document == schema.document
    ordered = FORMAT.parse(schema.normalised(2))
    assert ordered.normalised(2) == schema.normalised(2)
    assert ordered.fingerprint == again.fingerprint == schema.fingerprint


@settings(deadline=None, max_examples=150)
@given(st.text("struct {}A 1:i32,;list<>enum'\"=()*/#\n.&[]", max_size=60), st.integers(0, 80))
def test_no_text_brings_the_parser_down(noise: str, at: int) -> None:
    good = "enum E { A, B = 3 } struct S { 1: required list<i32> a = [1] (x = 'y'), 2: E e = E.B }"
    for text in (noise, good[:at] + noise + good[at:], good[:at]):
        try:
            FORMAT.parse(text).normalised(2)
        except InvalidSchema as error:
            assert error.where["line"] and error.where["column"]
