"""Options that become settings of servers."""

import click
import pytest
from click.testing import CliRunner

from rocketmq_py.cli.server.settings import (
    assigned,
    drain_option,
    ready,
    settings_options,
    tls_options,
    without_unknown,
)


def given(decorator, *words):
    @click.command()
    @decorator
    def command(**options):
        return options

    return command.main(words, standalone_mode=False)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ((), {}),
        (("--drain", "0"), {"enableShutdownGracefully": "false", "shutdownWaitTimeSeconds": "0"}),
        (("--drain", "1"), {"enableShutdownGracefully": "true", "shutdownWaitTimeSeconds": "1"}),
        (("--drain", "30"), {"enableShutdownGracefully": "true", "shutdownWaitTimeSeconds": "30"}),
    ],
)
def test_a_drain_is_two_settings(words, settings):
    assert given(drain_option, *words) == {"drain_assignments": settings}


def test_a_drain_is_not_negative():
    with pytest.raises(click.BadParameter):
        given(drain_option, "--drain", "-1")


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ((), {}),
        (("--tls-cert", "c"), {"tls.server.certPath": "c"}),
        (("--tls-key", "k"), {"tls.server.keyPath": "k"}),
        (("--tls-mode", "disabled"), {"tls.server.mode": "disabled"}),
        (
            ("--tls-ca", "a"),
            {"tls.server.trustCertPath": "a", "tls.server.authClient": "true",
             "tls.server.need.client.auth": "require"},
        ),
    ],
)  # fmt: skip
def test_tls_options_are_settings_of_java(words, settings):
    assert given(tls_options, *words) == {"tls_assignments": settings}


def test_settings_come_from_a_file_and_by_key(tmp_path):
    (tmp_path / "conf").touch()
    found = given(settings_options("broker"), "-c", str(tmp_path / "conf"), "--set", "a=1", "--set", "b=2")
    assert found == {"config_file": tmp_path / "conf", "assignments": ("a=1", "b=2")}
    assert given(settings_options("broker")) == {"config_file": None, "assignments": ()}


def test_the_help_names_the_server():
    @click.command()
    @settings_options("name server")
    def command(**_):
        """Nothing."""

    assert "settings of the name server" in " ".join(CliRunner().invoke(command, ["--help"]).output.split())


@pytest.mark.parametrize("text", ["x", "=1", " =1"])
def test_a_setting_needs_a_key_and_a_value(text):
    with pytest.raises(click.BadParameter, match=f"'{text}' is not a setting: key=value is expected"):
        assigned([text])


def test_an_empty_value_is_a_value():
    assert assigned(["a=", "a=2", "b=x=y"]) == {"a": "2", "b": "x=y"}


def test_unknown_settings_of_a_file_are_left_out_with_one_warning(caplog):
    found = without_unknown({"a": "1", "z": "2", "c": "3", "y" * 1000: "4"}, lambda key: key == "c")
    assert found == {"c": "3"}
    [record] = caplog.records
    assert record.getMessage().startswith("settings that no RocketMQ server has, without effect: a, yyy")
    assert record.getMessage().endswith(", z")
    assert len(record.getMessage()) < 400
    caplog.clear()
    assert without_unknown({"c": "3"}, lambda _: True) == {"c": "3"}
    assert caplog.records == []


def test_the_ready_line_has_all_addresses(capsys):
    ready(namesrv="h:1", broker="h:2")
    assert capsys.readouterr().out == "READY namesrv=h:1 broker=h:2\n"
