"""The linter. Each rule's page of documentation holds its tests: a wrong model and a right one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings

from dragoman.language.diagnostic import Severity, apply
from dragoman.language.lint import RULES, fix, has_errors, lint, lint_text
from dragoman.language.lint.output import as_json, as_sarif
from dragoman.language.parser import parse
from tests.language import ebnf

PAGES = Path(__file__).parents[2] / "docs" / "lint"
MODEL = """API description Shop
data type Order { "id": ID<int> }
channel Orders
  on path "orders"
  produces message OrderPlaced
    delivering payload Order
    where CORRELATION_ID is "$message.payload#/nowhere"
"""


def examples(rule: str) -> tuple[str, str]:
    wrong, right = re.findall(r"```mdsl\n(.*?)```", (PAGES / f"{rule}.md").read_text(), re.DOTALL)
    return wrong, right


def found(text: str, rule: str) -> bool:
    return any(each.rule == rule for each in lint_text(text))


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_finds_what_is_wrong_and_accepts_what_is_right(rule: str) -> None:
    wrong, right = examples(rule)
    assert found(wrong, rule)
    assert parse(right).ok and not found(right, rule)


@pytest.mark.parametrize("rule", RULES)
def test_the_page_says_what_the_rule_does(rule: str) -> None:
    page = (PAGES / f"{rule}.md").read_text()
    assert f"{RULES[rule].severity.word.capitalize()}. {RULES[rule].summary}" in page
    finding = next(each for each in lint_text(examples(rule)[0]) if each.rule == rule)
    assert f"It says: {finding.message}" in page
    assert ("A fix is offered." in page) == (finding.fix is not None)
    assert f"[{rule}]({rule}.md) | {RULES[rule].severity.word}" in (PAGES / "index.md").read_text()


def test_there_is_a_page_for_each_rule_and_no_other() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == {*RULES, "index"}


@pytest.mark.parametrize("rule", RULES)
def test_a_fix_removes_its_cause_and_leaves_a_model_that_parses(rule: str) -> None:
    wrong, _ = examples(rule)
    fixes = [each.fix for each in lint_text(wrong) if each.rule == rule and each.fix]
    if fixes:
        mended = apply(wrong, fixes)
        assert parse(mended).ok and not found(mended, rule)


def test_all_fixes_together_mend_a_model() -> None:
    text = """API description Shop
data type order { "id": ID<int>, "total": D }
channel Orders
  of type GUARANTEED_DELIVERY, GUARANTEED_DELIVERY
  on path "shops/${shop}/orders"
  produces message OrderPlaced
    expecting payload Ordr
message endpoint Billing
  of type COMPETEING_CONSUMER
  uses channels: Orders where consumed if "payload.id" > 3
"""
    assert {each.rule for each in lint_text(fix(text))} == set()


def test_a_fix_names_what_it_meant_also_where_the_language_has_that_word() -> None:
    text = """API description Shop
data type link { "id": ID<int> }
data type order { "first": link, "second": order? }
event type Placed
flow Selling event Placed triggers flow Selling
  binding to channel type Orders event Placed to message OrderPlaced with mediation from order to link
channel Orders on path "orders" produces message OrderPlaced delivering payload lnk
"""
    fixed = fix(text)
    assert 'data type Order { "first": ^Link, "second": Order? }' in fixed
    assert "with mediation from Order to ^Link" in fixed and "delivering payload ^Link" in fixed
    assert {each.rule for each in lint_text(fixed)} == set()


def test_a_type_that_only_a_mediation_names_is_used() -> None:
    text = """API description Shop
data type Order { "id": ID<int> }
event type Placed
flow Selling event Placed triggers flow Selling
  binding to channel type Orders event Placed to message OrderPlaced with mediation from Order to Other
channel Orders on path "orders" produces message OrderPlaced delivering payload D<int>
"""
    assert not found(text, "unused-type")


def test_fixes_at_one_place_are_all_made() -> None:
    names = [f"p{number}" for number in range(12)]
    text = MODEL.replace('"orders"', '"' + "/".join(f"{{{name}}}" for name in names) + '"')
    assert not found(fix(text), "undescribed-parameter")


def test_a_mended_pointer_is_a_string_whatever_is_in_it() -> None:
    fixed = fix(MODEL.replace('"$message.payload#/nowhere"', "'payload.a\"b'"))
    assert parse(fixed).ok and not found(fixed, "pointer-format")


def test_a_pointer_is_followed_through_types_lists_and_alternatives() -> None:
    text = """API description Shop
data type Address { "city": { "zip": D<int> } }
data type Order { "id": ID<int>, "to": Address | "shop": ID<int>, "lines": { "sku": D<string> }+ }
channel A on path "a" produces message M delivering payload Order
  where CORRELATION_ID is "$message.payload#POINTER"
"""
    for good in ("/id", "/to/city/zip", "/shop", "/lines/0/sku", ""):
        assert not found(text.replace("POINTER", good), "pointer-unresolved"), good
    for bad in ("/to/zip", "/lines/sku", "/id/x", "/", "/shop/id"):
        assert found(text.replace("POINTER", bad), "pointer-unresolved"), bad


def test_a_pointer_into_a_tuple_is_a_place_that_it_has() -> None:
    text = """API description Shop
data type Pair [ { "a": D<int> }; { "b": D<int> } ]
channel A on path "a" produces message M delivering payload Pair
  where CORRELATION_ID is "$message.payload#/TOKEN"
"""
    assert not found(text.replace("TOKEN", "1/b"), "pointer-unresolved")
    for token in ("2", "-1", "01", "000000000002", "9" * 5_000, "\u00b2", "\u0661"):
        assert found(text.replace("TOKEN", token), "pointer-unresolved"), token


@pytest.mark.parametrize(
    "comment",
    [
        MODEL.replace('/nowhere"', '/nowhere" // lint: allow pointer-unresolved'),
        MODEL.replace("channel", "// lint: allow other, pointer-unresolved\nchannel"),
        "// lint: allow-file pointer-unresolved\n" + MODEL,
    ],
)
def test_a_comment_silences_a_rule(comment: str) -> None:
    assert has_errors(lint_text(MODEL))
    assert not found(comment, "pointer-unresolved")


def test_a_comment_silences_nothing_elsewhere() -> None:
    assert found(
        MODEL.replace("data type", "// lint: allow pointer-unresolved\ndata type"), "pointer-unresolved"
    )
    assert found(MODEL.replace("channel", "// lint: allow unknown-reference\nchannel"), "pointer-unresolved")


def test_with_syntax_errors_nothing_else_is_said() -> None:
    diagnostics = lint_text(MODEL + "channel oops\n")
    assert [each.rule for each in diagnostics] == ["syntax"]


def test_json_names_the_place_the_rule_and_the_fix() -> None:
    parsed = parse(MODEL.replace("ID<int>", "ID"), "shop.mdsl")
    first = as_json(parsed.source, lint(parsed))[0]
    assert first == {
        "file": "shop.mdsl",
        "line": 2,
        "column": 25,
        "end_line": 2,
        "end_column": 27,
        "rule": "untyped-parameter",
        "severity": "info",
        "message": "'ID' has no basic type, such as ID<string>.",
        "expected": [],
        "fix": "Make it a string",
    }


def test_sarif_has_rules_results_and_fixes() -> None:
    parsed = parse(MODEL.replace("ID<int>", "ID"), "shop.mdsl")
    log = as_sarif([(parsed.source, lint(parsed))])
    run = log["runs"][0]
    assert log["version"] == "2.1.0"
    assert run["columnKind"] == "unicodeCodePoints"
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {*RULES, "syntax"}
    result = run["results"][0]
    assert (result["ruleId"], result["level"]) == ("untyped-parameter", "note")
    replacement = result["fixes"][0]["artifactChanges"][0]["replacements"][0]
    assert replacement["insertedContent"]["text"] == "ID<string>"
    assert {each["level"] for each in run["results"]} == {"note", "error"}


@settings(deadline=None, max_examples=150)
@given(ebnf.texts())
def test_every_model_can_be_linted_and_fixed(text: str) -> None:
    for each in lint_text(text):
        assert each.severity in Severity and each.message.endswith(".")
    assert parse(fix(text)).ok


def test_paths_that_are_one_channel_are_one_path() -> None:
    text = """API description A data type T { "a": D<int> }
channel C on path "a/b" produces message M delivering payload T
channel D on path "a.b" produces message N delivering payload T
channel E on path "a/b/c" produces message O delivering payload T
"""
    told = [each.message for each in lint_text(text) if each.rule == "duplicate-path"]
    assert told == ["Duplicate channel path 'a.b'. Its channel is a.b, as that of 'a/b'."]
