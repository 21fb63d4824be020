"""The runner of all tests: what it lets through, and what it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The plugins of other packages take most of the time that pytest needs to start.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-p pytest_timeout",
}

SOUND = "def test_sound():\n    pass\n"
BROKEN = "def test_broken():\n    raise AssertionError\n"
FLAKY = """
from pathlib import Path

def test_flaky_{number}():
    tried = Path(__file__).with_suffix(".tried")
    if not tried.exists():
        tried.touch()
        raise AssertionError
"""
SKIPPED_LATER = """
from pathlib import Path
import pytest

def test_skipped_later():
    tried = Path(__file__).with_suffix(".tried")
    if tried.exists():
        pytest.skip("not now")
    tried.touch()
    raise AssertionError
"""
FIXTURE = """
from pathlib import Path
import pytest

@pytest.fixture
def resource():
    tried = Path(__file__).with_suffix(".tried")
    had = tried.exists()
    tried.touch()
    {before}
    yield
    {after}

def test_with_resource(resource):
    pass
"""
CRASH = "import os\n\ndef test_crash():\n    os._exit({code})\n"
STOPPED = """
def test_first(request):
    request.session.shouldfail = "out of time"

def test_second():
    pass
"""


def run(folder: Path, *groups: dict[str, str]) -> tuple[int, str]:
    """The code and output of a run over groups of test files, each with a name and its text."""
    for index, files in enumerate(groups):
        for name, text in files.items():
            file = folder / f"group{index}" / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    arguments = [(f"group{index}", "-p", "no:cacheprovider") for index in range(len(groups))]
    done = subprocess.run(
        [sys.executable, "-c", f"import tests.run; raise SystemExit(tests.run.run({arguments!r}))"],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def flaky(count: int) -> dict[str, str]:
    return {f"test_flaky_{number}.py": FLAKY.format(number=number) for number in range(count)}


def test_sound_tests_pass_and_the_output_of_all_processes_is_shown(tmp_path: Path) -> None:
    code, output = run(tmp_path, {"test_a.py": SOUND}, {"test_b.py": SOUND, "test_c.py": SOUND})
    assert code == 0
    assert "1 passed" in output
    assert "2 passed" in output
    assert "flaky" not in output


def test_a_test_that_passes_alone_is_named_and_lets_the_run_pass(tmp_path: Path) -> None:
    code, output = run(tmp_path, {"test_a.py": SOUND}, flaky(1))
    assert code == 0
    assert "flaky: group1/test_flaky_0.py::test_flaky_0" in output.splitlines()


def test_more_than_two_flaky_tests_fail_the_run(tmp_path: Path) -> None:
    code, output = run(tmp_path, flaky(2), flaky(1))
    assert code == 1
    assert output.count("\nflaky: ") == 3


def test_a_test_that_fails_again_fails_the_run(tmp_path: Path) -> None:
    code, output = run(tmp_path, {"test_a.py": SOUND, "test_b.py": BROKEN}, flaky(1))
    assert code == 1
    assert "failed: group0/test_b.py::test_broken" in output.splitlines()
    assert "flaky: group1/test_flaky_0.py::test_flaky_0" in output.splitlines()


def test_a_test_that_is_skipped_the_second_time_has_not_passed(tmp_path: Path) -> None:
    code, output = run(tmp_path, {"test_a.py": SKIPPED_LATER})
    assert code == 1
    assert "failed: group0/test_a.py::test_skipped_later" in output.splitlines()


@pytest.mark.parametrize(
    "places", [{"before": "assert had", "after": "pass"}, {"before": "pass", "after": "assert had"}]
)
def test_a_failure_in_a_fixture_counts_as_one(tmp_path: Path, places: dict[str, str]) -> None:
    code, output = run(tmp_path, {"test_a.py": FIXTURE.format(**places)})
    assert code == 0
    assert "flaky: group0/test_a.py::test_with_resource" in output.splitlines()


@pytest.mark.parametrize(
    "text",
    [CRASH.format(code=0), CRASH.format(code=1), CRASH.format(code=139), STOPPED, "raise ImportError\n", ""],
    ids=["ends with 0", "ends with 1", "dies", "stops early", "cannot be imported", "has no tests"],
)
def test_a_process_that_does_not_run_to_its_end_fails_the_run(tmp_path: Path, text: str) -> None:
    code, output = run(tmp_path, {"test_a.py": SOUND}, {"test_b.py": text})
    assert code == 1
    assert "1 of the test processes did not run to their end." in output


def test_a_failure_before_a_crash_does_not_hide_the_crash(tmp_path: Path) -> None:
    code, _ = run(tmp_path, {**flaky(1), "test_z.py": CRASH.format(code=1)})
    assert code == 1


def test_a_run_that_is_stopped_stops_its_processes(tmp_path: Path) -> None:
    (tmp_path / "group").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "group" / "test_a.py").write_text(
        "import os, time\nfrom pathlib import Path\n\n"
        "def test_long():\n"
        "    Path('pid.partial').write_text(str(os.getpid()))\n"
        "    Path('pid.partial').rename('pid')\n"
        "    time.sleep(600)\n"
    )
    runner = subprocess.Popen(
        [sys.executable, "-c", "import tests.run; raise SystemExit(tests.run.run([('group',)]))"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (tmp_path / "pid").exists():
        assert runner.poll() is None
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(120) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
