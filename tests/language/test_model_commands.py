"""``dragoman model`` from the shell: what it prints, writes, and exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from dragoman.cli.model import app
from dragoman.core.errors import ConfigurationError

LOANS = Path(__file__).parents[2] / "examples" / "models" / "loan-broker.mdsl"
GOOD = 'API description Shop\n\ndata type Order { "id": ID<int> }\n'
ERRORS = GOOD + '\nchannel A\n  on path "a"\n  produces message M\n    delivering payload Oder\n'


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "shop.mdsl"
    file.write_text(GOOD)
    return file


def test_a_good_model_is_linted_without_errors(shop: Path) -> None:
    result = run("lint", LOANS)
    assert (result.exit_code, result.output) == (0, "")
    result = run("lint", shop)
    assert result.exit_code == 0
    assert result.output == f"{shop}:3:11: info: The data type 'Order' is not used. [unused-type]\n"


def test_errors_exit_with_one_and_unparsable_models_with_two(shop: Path) -> None:
    shop.write_text(ERRORS)
    result = run("lint", shop)
    assert result.exit_code == 1
    assert "error: There is no data type 'Oder'. [unknown-reference] (fixable)" in result.output
    shop.write_text(GOOD + "channel\n")
    result = run("lint", shop)
    assert result.exit_code == 2
    assert (
        f"{shop}:5:1: error: Expected the name of the channel, found the end of the file. [syntax]"
        in result.output
    )


def test_fixes_are_made_in_the_file(shop: Path) -> None:
    shop.write_text(ERRORS)
    assert run("lint", "--fix", shop).exit_code == 0
    assert "payload Order" in shop.read_text()


def test_lint_prints_json_and_sarif(shop: Path) -> None:
    shop.write_text(ERRORS)
    rows = json.loads(run("lint", "--json", shop).output)
    assert [row["rule"] for row in rows] == ["unused-type", "unknown-reference"]
    log = json.loads(run("lint", "--sarif", shop, LOANS).output)
    assert [each["ruleId"] for each in log["runs"][0]["results"]] == ["unused-type", "unknown-reference"]


def test_a_missing_file_is_told_with_what_to_do(tmp_path: Path) -> None:
    result = run("lint", tmp_path / "nowhere.mdsl")
    assert isinstance(result.exception, ConfigurationError)
    assert "No such file" in str(result.exception)


def test_format_rewrites_checks_and_shows(shop: Path) -> None:
    shop.write_text(GOOD.replace("{ ", "{"))
    check = run("format", "--check", shop)
    assert (check.exit_code, check.output) == (1, f"{shop} would be reformatted.\n")
    diff = run("format", "--diff", shop)
    assert diff.exit_code == 1 and '+data type Order { "id": ID<int> }' in diff.output
    assert shop.read_text() != GOOD
    assert run("format", shop).exit_code == 0
    assert shop.read_text() == GOOD
    assert run("format", "--check", shop).exit_code == 0


def test_asyncapi_is_written_as_yaml_and_json(tmp_path: Path) -> None:
    printed = run("asyncapi", LOANS, "--spec", "2.6.0")
    assert yaml.safe_load(printed.output)["asyncapi"] == "2.6.0"
    target = tmp_path / "customer.json"
    assert run("asyncapi", LOANS, "--endpoint", "Customer", "-o", target).exit_code == 0
    assert json.loads(target.read_text())["operations"]["sendLoanRequest"]["action"] == "send"


def test_nothing_is_generated_from_a_model_with_errors(shop: Path) -> None:
    shop.write_text(ERRORS)
    assert run("asyncapi", shop).exit_code == 1
    shop.write_text("channel")
    assert run("asyncapi", shop).exit_code == 2


def test_diagrams_of_the_system_and_of_a_flow(tmp_path: Path) -> None:
    assert run("diagram", LOANS).output.startswith("<svg")
    assert run("diagram", LOANS, "-f", "mermaid").output.startswith("flowchart LR")
    healthcare = LOANS.parent / "healthcare.mdsl"
    assert "Assess" in run("diagram", healthcare, "--flow", "VisitFlow").output
    assert isinstance(run("diagram", healthcare, "--flow", "Nothing").exception, ConfigurationError)


def test_schemas_of_one_type_or_all(tmp_path: Path) -> None:
    assert json.loads(run("schema", LOANS, "LoanReplyDto").output)["name"] == "LoanReplyDto"
    assert run("schema", LOANS, "-f", "protobuf", "-o", tmp_path / "proto").exit_code == 0
    assert (tmp_path / "proto" / "LoanReplyDto.proto").read_text().startswith('syntax = "proto3";')
    assert isinstance(run("schema", LOANS).exception, ConfigurationError)


def test_code_is_written_and_checked(tmp_path: Path) -> None:
    assert run("code", "--check", LOANS, tmp_path / "loans").exit_code == 1
    assert "19 of 19 files were written." in run("code", LOANS, tmp_path / "loans").output
    assert run("code", "--check", LOANS, tmp_path / "loans").exit_code == 0
    (tmp_path / "loans" / "records.py").write_text("")
    result = run("code", "--check", LOANS, tmp_path / "loans")
    assert result.exit_code == 1 and "another version of the model" in result.output


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_files_of_windows_are_as_good(tmp_path: Path, mark: str, end: str) -> None:
    file = tmp_path / "loans.mdsl"
    file.write_bytes((mark + LOANS.read_text().replace("\n", end)).encode())
    result = run("lint", file)
    assert (result.exit_code, result.output) == (0, "")
    assert run("format", "--check", file).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("asyncapi", LOANS, "-o", "taken/x.yaml"),
        ("diagram", LOANS, "-o", "taken/x.svg"),
        ("schema", LOANS, "-o", "taken"),
        ("schema", LOANS, "LoanReplyDto", "-o", "taken/x.avsc"),
        ("code", LOANS, "taken"),
        ("code", LOANS, "taken", "--check"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_told(
    arguments: tuple[str | Path, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("A file, no folder.")
    result = run(*arguments)
    stale = arguments[-1] == "--check" and result.exit_code == 1
    assert stale or isinstance(result.exception, ConfigurationError)
    assert (tmp_path / "taken").read_text() == "A file, no folder."


def test_one_form_of_output_at_a_time(shop: Path) -> None:
    assert run("lint", "--json", "--sarif", shop).exit_code == 2
