"""What ``make profile`` runs."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks import profile


def test_py_spy_samples_the_broker_into_a_flame_graph():
    command = profile.py_spy_command("/bin/py-spy", 42, Path("out.svg"), 10, 500, native=True)
    expected = "/bin/py-spy record --pid 42 --output out.svg --duration 10 --rate 500 --native"
    assert command == expected.split()
    assert profile.py_spy_command("/bin/py-spy", 42, Path("out.svg"), 10, 500, native=False) == command[:-1]


def test_cprofile_takes_the_place_of_a_py_spy_that_is_missing(monkeypatch: pytest.MonkeyPatch):
    profiled = []
    monkeypatch.setattr(profile, "tool_path", lambda: None)
    monkeypatch.setattr(profile, "with_cprofile", lambda *arguments: profiled.append(arguments[1:]))
    result = CliRunner().invoke(profile.main, ["send-64", "--seconds", "3"])
    assert result.output.splitlines()[-1] == "profile-send-64.txt"
    assert profiled == [(profile.WORKS["send-64"], Path("profile-send-64.txt"), 3)]


def test_a_failure_of_py_spy_is_told_with_a_way_out(monkeypatch: pytest.MonkeyPatch):
    def refused(*_: object, **__: object) -> None:
        raise profile.BenchError("py-spy failed:\nPermission Denied")

    monkeypatch.setattr(profile, "tool_path", lambda: "/bin/py-spy")
    monkeypatch.setattr(profile, "with_py_spy", refused)
    result = CliRunner().invoke(profile.main, ["send-64"])
    assert result.exit_code == click.ClickException.exit_code
    assert "Permission Denied\nwith --cprofile no other process has to be attached to" in result.output
