"""Settings come from the environment, the file, or their defaults, and mistakes in them are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from dragoman.cli.config import template
from dragoman.cli.registry.options import connection_limits, limits
from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError
from dragoman.core.settings import read_section, refuse_unknown_sections, setting
from dragoman.registry.http.connections import ConnectionLimits
from dragoman.registry.limits import Limits


@dataclass(frozen=True, slots=True)
class Front:
    port: int = setting(8080, "The port.")
    share: float = setting(0.5, "A share.")
    public: bool = setting(False, "Whether everybody may come.")
    origins: tuple[str, ...] = setting((), "Who may ask.")
    name: str | None = setting(None, "A name.")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("DRAGOMAN_BROKER", "DRAGOMAN_REGISTRY", "DRAGOMAN_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_a_default_gives_way_to_the_file_and_the_file_to_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_broker() == "embedded://.dragoman"
    (folder / "dragoman.toml").write_text('broker = "redis://localhost"\nregistry = "http://localhost:8081"')
    assert default_broker() == "redis://localhost"
    monkeypatch.setenv("DRAGOMAN_BROKER", "kafka://localhost")
    assert default_broker() == "kafka://localhost"
    assert default_registry() == "http://localhost:8081"


def test_an_empty_variable_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CONFIG", "")
    assert default_broker() == "embedded://.dragoman"


def test_each_kind_of_value_is_read_from_both(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "dragoman.toml").write_text(
        '[front]\nport = 1\nshare = 1\npublic = true\norigins = ["a", "b"]\nname = "n"'
    )
    assert read_section(Front, "front").values == Front(1, 1.0, True, ("a", "b"), "n")
    for name, text in {"PORT": "2", "SHARE": ".25", "PUBLIC": "no", "ORIGINS": "c, d", "NAME": "m"}.items():
        monkeypatch.setenv(f"DRAGOMAN_FRONT_{name}", text)
    found = read_section(Front, "front")
    assert found.values == Front(2, 0.25, False, ("c", "d"), "m")
    assert {each.name: each.origin for each in found.settings}["front.port"] == "DRAGOMAN_FRONT_PORT"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[front]\nprot = 1", "no setting 'prot'"),
        ('[front]\nport = "many"', "front.port cannot be 'many'"),
        ("[front]\nport = true", "front.port cannot be True"),
        ("[front]\norigins = [1]", "front.origins cannot be"),
        ("front = 1", "[front] is not a section"),
        ("[front", "not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_the_file(folder: Path, text: str, said: str) -> None:
    (folder / "dragoman.toml").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_section(Front, "front")
    assert said in str(caught.value)
    assert "dragoman.toml" in str(caught.value)


def test_a_mistake_in_the_environment_is_told_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_FRONT_PUBLIC", "perhaps")
    with pytest.raises(ConfigurationError, match="DRAGOMAN_FRONT_PUBLIC cannot be 'perhaps'"):
        read_section(Front, "front")


def test_a_section_that_nobody_reads_and_a_file_that_is_not_there_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "dragoman.toml").write_text("[frnt]\nport = 1")
    with pytest.raises(ConfigurationError, match=r"\[frnt\] is not a section"):
        refuse_unknown_sections({"front": Front})
    monkeypatch.setenv("DRAGOMAN_CONFIG", "elsewhere.toml")
    with pytest.raises(ConfigurationError, match="not there"):
        default_broker()


def test_the_template_never_writes_down_what_is_set_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_BROKER", "redis://user:geheim@localhost")
    assert "geheim" not in template()
    assert '# broker = "embedded://.dragoman"' in template()


def test_the_limits_of_the_registry_are_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits() == Limits()
    assert connection_limits() == ConnectionLimits()
    (folder / "dragoman.toml").write_text(
        "[registry_limits]\nlogins = 50\n[registry_connections]\nhead_s = 5\nconnections = 9\n"
    )
    monkeypatch.setenv("DRAGOMAN_REGISTRY_LIMITS_LOGINS_WAITING", "7")
    assert limits() == Limits(logins=50, logins_waiting=7)
    assert connection_limits() == ConnectionLimits(head_s=5.0, connections=9)
    assert "# logins_site = 100" in template()


@pytest.mark.parametrize(
    ("section", "text", "said"),
    [
        ("registry_limits", "logins = 0", "logins cannot be 0"),
        ("registry_connections", "body_s = 0", "body_s cannot be 0.0"),
        ("registry_connections", "body_s = nan", "body_s cannot be nan"),
        ("registry_connections", "connections = 0", "connections cannot be 0"),
    ],
)
def test_a_limit_with_which_nothing_would_work_is_refused(
    folder: Path, section: str, text: str, said: str
) -> None:
    (folder / "dragoman.toml").write_text(f"[{section}]\n{text}\n")
    with pytest.raises(ConfigurationError, match=said):
        if section == "registry_limits":
            limits()
        else:
            connection_limits()
