"""Reading .proto texts: what is accepted becomes what protoc makes of it; the rest names its place."""

from __future__ import annotations

import base64
import importlib
import re
from functools import cache
from importlib import resources

import pytest
from google.protobuf import descriptor_pb2 as pb
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.errors import InvalidSchema
from dragoman.formats.protobuf import ProtobufFormat, ProtobufSchema

FORMAT = ProtobufFormat()
OFFICIAL = [
    "google/api/annotations.proto", "google/api/auth.proto", "google/api/client.proto",
    "google/api/distribution.proto", "google/api/field_info.proto", "google/api/http.proto",
    "google/api/quota.proto", "google/api/resource.proto", "google/api/routing.proto",
    "google/longrunning/operations_proto.proto", "google/rpc/context/attribute_context.proto",
    "google/rpc/error_details.proto", "google/type/color.proto", "google/type/datetime.proto",
    "google/type/postal_address.proto",
]  # fmt: skip


@cache
def official(name: str) -> ProtobufSchema:
    package, _, file = name.rpartition("/")
    text = resources.files(package.replace("/", ".")).joinpath(file).read_text("utf-8")
    imports = re.findall(r'^import (?:public )?"([^"]+)";', text, re.MULTILINE)
    return FORMAT.parse(
        text, {each: official(each) for each in imports if not each.startswith("google/protobuf/")}
    )


@pytest.mark.parametrize("name", OFFICIAL)
def test_a_file_becomes_the_descriptor_that_the_official_compiler_makes(name: str) -> None:
    pytest.importorskip("google.api.http_pb2")
    compiled = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    expected = pb.FileDescriptorProto.FromString(compiled.DESCRIPTOR.serialized_pb)
    made = pb.FileDescriptorProto()
    made.CopyFrom(official(name).file)
    made.name = expected.name
    assert made.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("message A {\n  optional int32 x = 1\n}", 3, 1, "Expected ';'"),
        ('syntax = "proto3";\nmessage A { int32 x = 1; int32 y = 1; }', 2, 36, "already used by 'x'"),
        ('syntax = "proto3";\nmessage A { B b = 1; }', 2, 13, "'B' is not defined"),
        ('syntax = "proto3";\nimport "a.proto";', 2, 8, "'a.proto' is not known"),
        ("syntax = \"proto4\";", 1, 10, "not a syntax"),
        ("message A { ! }", 1, 13, "no meaning"),
        ("/* never closed", 1, 1, "never closed"),
        ('syntax = "proto3', 1, 10, "not closed"),
        ('syntax = "proto3"; message A { string s = 0; }', 1, 43, "out of range"),
        ('syntax = "proto3"; message A { string s = 19500; }', 1, 43, "reserved by Protobuf"),
        ('syntax = "proto3"; message A { string s = 1x; }', 1, 43, "not a number"),
        ('syntax = "proto3"; message A { string s = 536870912; }', 1, 43, "out of range"),
        ('syntax = "proto3"; enum E { A = 1; }', 1, 33, "not 0"),
        ('syntax = "proto3"; enum E { A = 0; B = 0; }', 1, 40, "allow_alias"),
        ('syntax = "proto3"; enum E { }', 1, 25, "no values"),
        ('syntax = "proto3"; message A { reserved 2 to 4; int32 a = 3; }', 1, 59, "reserved"),
        ('syntax = "proto3"; message A { reserved "a"; int32 a = 3; }', 1, 52, "reserved"),
        ('syntax = "proto3"; message A { reserved 2 to 4, 3; }', 1, 49, "overlaps"),
        ('syntax = "proto3"; message A { reserved 4 to 2; }', 1, 41, "before it starts"),
        ('syntax = "proto3"; message A { required int32 a = 1; }', 1, 32, "no required"),
        ('syntax = "proto3"; message A { int32 a = 1 [default = 1]; }', 1, 45, "no defaults"),
        ('syntax = "proto3"; message A { map<float, int32> a = 1; }', 1, 36, "key"),
        ('syntax = "proto3"; message A { repeated map<int32, int32> a = 1; }', 1, 32, "no label"),
        ('syntax = "proto3"; message A { oneof a { } }', 1, 38, "no fields"),
        ('syntax = "proto3"; message A { oneof a { repeated int32 b = 1; } }', 1, 42, "no label"),
        ('syntax = "proto3"; message A { int32 a = 1; string a = 2; }', 1, 52, "defined twice"),
        ('syntax = "proto3"; message A {} enum A { X = 0; }', 1, 38, "defined twice"),
        ('syntax = "proto3"; enum A { X = 0; } enum B { X = 0; }', 1, 47, "defined twice"),
        ('syntax = "proto3"; option nonsense = 1;', 1, 27, "nonsense"),
        ('syntax = "proto3"; option java_package = 1;', 1, 27, "java_package"),
        ('syntax = "proto3"; option deprecated = true; option deprecated = true;', 1, 53, "twice"),
        ('syntax = "proto3"; message A { int32 a = 1 [(x) = 1]; }', 1, 45, "(x) is not defined"),
        ('syntax = "proto3"; message A { int32 a = 1 [packed = true]; }', 1, 38, "packed"),
        ('syntax = "proto3"; message A { A.B b = 1; }', 1, 32, "not defined"),
        ('syntax = "proto3"; message A { extensions 5; }', 1, 43, "no extensions"),
        ("message M {\n optional int32 a = 1 [default = 'x'];}", 2, 24, "default"),
        ("message M {\n optional E a = 1 [default = Z]; enum E { A = 1; } }", 2, 13, "default"),
        ("message M {\n optional int32 a = 1 [default = 2147483648];}", 2, 24, "default"),
        ("message A { extensions 4 to 10; } extend A { optional int32 a = 3; }", 1, 61, "range"),
        ("package a; package b;", 1, 12, "second time"),
        ('syntax = "proto3"; service S { rpc A(E) returns (E); } enum E { X = 0; }', 1, 38, "not a message"),
        ('edition = "2023"; message A { optional int32 x = 1; }', 1, 31, "Editions"),
        ('edition = "1999";', 1, 11, "not an edition"),
        ("message A { message B { ", 1, 23, "never closed"),
        ("   ", 1, 1, "empty"),
        ("garbage", 1, 1, "neither"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(text: str, line: int, column: int, what: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        FORMAT.parse(text)
    assert what in str(caught.value)
    assert (caught.value.where["line"], caught.value.where["column"]) == (line, column)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    for text in ("message A {" * 5000, 'syntax = "proto3"; option (a) = ' + "{ a: " * 5000):
        with pytest.raises(InvalidSchema):
            FORMAT.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "message A { required int32 a = 1; optional group Old = 2 { optional int32 b = 1; } }",
        'message A { optional string s = 1 [default = "a\\"\\303\\244\\n"]; }',
        'message A { optional bytes b = 2 [default = "\\xff\'\\"\\\\"]; }',
        "message A { optional double d = 1 [default = -inf]; optional float f = 2 [default = 1e10]; }",
        "message A { extensions 100 to max; } extend A { optional int32 a = 100; repeated A more = 101; }",
        'edition = "2023"; option features.field_presence = IMPLICIT; message A { int32 x = 1; reserved y; }',
        'edition = "2024"; export message A { int32 x = 1; local enum B { X = 0; } }',
        'syntax = "proto3"; message A { map<string, A> m = 1; message B {} map<int32, B> n = 2; }',
        'syntax = "proto3"; message A { optional int32 _x = 1; optional int32 x = 2; int32 message = 3; }',
        'syntax = "proto3"; package a.b; message b { message a { b.a x = 1; .a.b.b y = 2; } }',
        'import public "google/protobuf/any.proto"; message A { optional google.protobuf.Any a = 1; }',
        'enum E { option allow_alias = true; A = 0; B = 0; C = -5; reserved 7, 9 to max; }',
        'syntax = "proto3"; service S { rpc A(stream M) returns (stream M) {} } message M {}',
        'syntax = "proto3"; message A { oneof x { int32 a = 1; A b = 2; } int32 c = 3 [json_name = "D"]; }',
        'import "confluent/meta.proto"; message A { option (confluent.message_meta).doc = "";'
        ' optional int32 a = 1 [(confluent.field_meta) = { tags: ["P"] params { key: "k" value: "v" } }]; }',
        'import "google/protobuf/descriptor.proto";'
        " extend google.protobuf.FieldOptions { repeated int32 mine = 50000; }"
        " message A { optional int32 a = 1 [(mine) = 1, (mine) = -2, deprecated = true]; }",
    ],
)  # fmt: skip
def test_the_canonical_text_means_the_same_and_is_its_own_canonical_text(text: str) -> None:
    schema = FORMAT.parse(text)
    for level in (1, 2):
        again = FORMAT.parse(schema.normalised(level))
        assert again.normalised(level) == schema.normalised(level)
        assert again.fingerprint == schema.fingerprint
        assert [each.full_name for each in again.messages.values()] == [
            each.full_name for each in schema.messages.values()
        ]
        assert list(again.messages) == list(schema.messages)
    assert FORMAT.parse(schema.normalised(1)) == schema
    assert FORMAT.parse(schema.serialized()).normalised(2) == schema.normalised(2)


def test_known_files_are_the_ones_that_others_know() -> None:
    pytest.importorskip("google.type.date_pb2")
    for name in ("date", "timeofday", "datetime", "money", "postal_address", "color", "interval"):
        compiled = importlib.import_module(f"google.type.{name}_pb2")
        official_file = pb.FileDescriptorProto.FromString(compiled.DESCRIPTOR.serialized_pb)
        schema = FORMAT.parse(f'syntax = "proto3"; import "google/type/{name}.proto"; message A {{}}')
        assert schema.imports[f"google/type/{name}.proto"] == official_file


def test_a_reference_is_found_by_the_path_of_its_import() -> None:
    inner = FORMAT.parse('syntax = "proto3"; package inner; message Item { string sku = 1; }')
    middle = FORMAT.parse(
        'syntax = "proto3"; import public "inner.proto"; message Box { inner.Item item = 1; }',
        {"inner.proto": inner},
    )
    outer = FORMAT.parse(
        'syntax = "proto3"; import "box.proto"; message Order { Box box = 1; inner.Item item = 2; }',
        {"box.proto": middle},
    )
    assert outer.name == "Order"
    changed = FORMAT.parse('syntax = "proto3"; package inner; message Item { string sku = 2; }')
    with pytest.raises(InvalidSchema, match="two different files"):
        FORMAT.parse(
            'syntax = "proto3"; import "box.proto"; import "inner.proto"; message A {}',
            {"box.proto": middle, "inner.proto": changed},
        )


def test_the_fingerprint_sees_the_wire_and_what_is_imported_but_no_layout() -> None:
    text = 'syntax = "proto3"; message A { int32 x = 1; string y = 2; }'
    same = (
        'syntax="proto3"; option java_package = "a.b"; // note\n'
        "message A { string y = 2; int32 x = 1 [deprecated = true]; }"
    )
    assert FORMAT.parse(text).fingerprint == FORMAT.parse(same).fingerprint
    assert FORMAT.parse(text).fingerprint != FORMAT.parse(text.replace("y = 2", "y = 3")).fingerprint
    outer = 'syntax = "proto3"; import "i.proto"; message A { B b = 1; }'
    one, two = (
        FORMAT.parse(outer, {"i.proto": FORMAT.parse(f'syntax = "proto3"; message B {{ {field} x = 1; }}')})
        for field in ("int32", "string")
    )
    assert one.fingerprint != two.fingerprint


@settings(deadline=None, max_examples=150)
@given(st.text("message {}A=1;int32 \"proto3'//*\n<>[](),.to", max_size=60), st.integers(0, 80))
def test_no_text_brings_the_parser_down(noise: str, at: int) -> None:
    good = 'syntax = "proto3"; message A { int32 x = 1; map<string, A> m = 2; reserved 4; }'
    for text in (noise, good[:at] + noise + good[at:], good[:at]):
        try:
            FORMAT.parse(text).normalised(2)
        except InvalidSchema as error:
            assert error.where["line"] and error.where["column"]


def test_sizes_of_texts_do_not_explode() -> None:
    maps = "".join(f"map<string, int32> m{n} = {n};" for n in range(1, 1500))
    ranges = ", ".join(str(n) for n in range(10_000, 14_000, 2))
    schema = FORMAT.parse(f'syntax = "proto3"; message A {{ {maps} reserved {ranges}; }}')
    assert FORMAT.parse(schema.normalised(2)).fingerprint == schema.fingerprint
    with pytest.raises(InvalidSchema, match="already used"):
        FORMAT.parse('syntax = "proto3"; message A { reserved 3 to max; int32 a = 1; int32 b = 1; }')
    with pytest.raises(InvalidSchema, match="out of range"):
        FORMAT.parse(f'syntax = "proto3"; message A {{ int32 a = {"9" * 10_000}; }}')


DESCRIPTOR = base64.b64decode(
    FORMAT.parse(
        """syntax = "proto3"; package a.b;
        message A {
          optional int32 x = 1; map<string, A> m = 2; enum E { X = 0; } oneof o { E e = 3; string s = 4; }
          reserved 9, 11 to 12; reserved "old"; repeated fixed32 r = 5;
        }
        service S { rpc Do(A) returns (stream A); }"""
    ).serialized()
)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, len(DESCRIPTOR) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_descriptors_are_refused_or_become_texts(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(DESCRIPTOR)
    for at, byte in changes:
        damaged[at] = byte
    try:
        schema = FORMAT.parse(base64.b64encode(damaged).decode())
    except InvalidSchema:
        return
    assert FORMAT.parse(schema.normalised(1)).normalised(2) == schema.normalised(2)
