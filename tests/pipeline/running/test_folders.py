"""A URL is no folder: it is refused everywhere, before anything is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.backfill import Backfill
from dragoman.pipeline.configuration import Settings, read_settings
from dragoman.pipeline.folders import local
from dragoman.pipeline.kept import kept_table
from dragoman.pipeline.options import RegistryAccess
from dragoman.pipeline.publishing import parse_publish_options
from dragoman.pipeline.running import Flow, Pipeline
from dragoman.pipeline.tables import open_table

URLS = [
    "s3://bucket/lake",
    "s3a://bucket/lake",
    "S3://bucket",
    "gs://bucket/lake",
    "abfss://container@account.dfs.core.windows.net/lake",
    "hdfs://host/lake",
    "dbfs:/lake",
    "file:///tmp/lake",
    "memory://",
    " s3://bucket/lake",
    "s3:bucket/lake",
    "s3a:bucket",
    "gs:",
    "file:lake",
    "C:\\lake",
    "a:b",
]
FLOWS = (Flow("loans"),)
WAYS: dict[str, Callable[[str], object]] = {
    "to": lambda url: Pipeline(None, FLOWS, url),
    "checkpoint": lambda url: Pipeline(None, FLOWS, "lake", checkpoint=url),
    "table": lambda url: Pipeline(None, (Flow("loans", table=url),), "lake"),
    "settings": lambda url: Settings(url, FLOWS),
    "settings' checkpoint": lambda url: Settings("lake", FLOWS, checkpoint=url),
    "what was kept": kept_table,
    "a table": lambda url: open_table("delta", url, "loans"),
    "backfill": lambda url: Backfill(None, "loans").to_table(url),
    "a backfill's state": lambda url: Backfill(None, "loans").to_channel("other", Path(url)),
    "publishing": lambda url: parse_publish_options(
        {"channel": "loans", "onInvalid": "quarantine", "quarantine": url}, RegistryAccess(""), "memory://"
    ),
}


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("way", WAYS)
def test_no_folder_is_named_after_a_url(
    way: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"the scheme \w+ is not supported") as caught:
        WAYS[way](url)
    assert caught.value.code == "configuration.location"
    assert list(tmp_path.iterdir()) == []


def test_a_configuration_file_with_a_url_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "lake.toml"
    file.write_text('to = "s3://bucket/lake"\n[[flow]]\nchannel = "loans"\n')
    with pytest.raises(ConfigurationError, match="s3"):
        read_settings(file)


@pytest.mark.parametrize(
    "given",
    [
        ["run", "--channel", "loans", "--once", "--to", "s3://bucket/lake"],
        ["run", "--channel", "loans", "--once", "--to", "lake", "--checkpoint", "s3://bucket/lake"],
        ["status", "--to", "s3://bucket/lake"],
        ["vacuum", "--to", "s3://bucket/lake"],
        ["quarantine", "list", "--to", "s3://bucket/lake"],
    ],
)
def test_commands_refuse_a_url_before_spark_is_started(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dragoman.cli.pipeline.running.spark_session", lambda master: pytest.fail("started"))
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *given])
    shown = " ".join(capfd.readouterr().err.split())
    assert ended.value.code == 2
    assert "the scheme s3 is not supported" in shown and "Traceback" not in shown
    assert list(tmp_path.iterdir()) == []


def test_secrets_in_a_url_are_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        local("s3://key:hunter2@bucket/lake", "to")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("folder", ["lake", "./lake", "/data/lake", "./s3:/lake", "./a:b", "lake/x:/y", " a"])
def test_a_path_is_a_path(folder: str) -> None:
    assert local(folder, "to") == Path(folder).absolute()


def test_the_home_folder_may_be_written_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert local("~/lake", "to") == tmp_path / "lake"
    with pytest.raises(ConfigurationError, match="no such home folder"):
        local("~no-such-user-here/lake", "to")


@pytest.mark.parametrize(
    "name", ["/tmp/x", "../x", "a/../../x", "_dragoman", "..", ".", "~", "a\\b", "a\0b", "é" * 101]
)
@pytest.mark.parametrize("way", ["a flow", "a pipeline", "a file's flow", "a table", "a backfill"])
def test_no_name_leads_out_of_its_folder(
    way: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: dict[str, Callable[[], object]] = {
        "a flow": lambda: Pipeline(None, (Flow("loans", table=name),), "lake"),
        "a pipeline": lambda: Pipeline(None, FLOWS, "lake", name=name),
        "a file's flow": lambda: Settings("lake", (Flow("loans", table=name),)),
        "a table": lambda: open_table("delta", "lake", name),
        "a backfill": lambda: Backfill(None, "loans", name=name).to_table("lake"),
    }
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        ways[way]()
    assert caught.value.code == "configuration.location"
    assert list(tmp_path.iterdir()) == []


def test_a_channel_without_letters_needs_a_table() -> None:
    with pytest.raises(ConfigurationError, match="table is ''"):
        Pipeline(None, (Flow("---"),), "lake")
