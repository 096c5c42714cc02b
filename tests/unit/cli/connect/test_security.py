"""TLS and access control on the command line: options, environment, saved contexts; secrets nowhere to be seen."""

import click
import pytest
from click.testing import CliRunner

from rocketmq_py.cli import main
from rocketmq_py.cli.connect.connect import Target
from rocketmq_py.cli.connect.security import CliSecurity
from rocketmq_py.errors import ConfigError
from rocketmq_py.tls import TlsOptions
from rocketmq_py.wire.signing import Credentials

KEYS = {"ROCKETMQ_ACCESS_KEY": "anna", "ROCKETMQ_SECRET_KEY": "s3cret"}


def secured(said=None, saved=None, environment=None):
    return Target("h:1", "here", security=saved or CliSecurity()).secured(said or CliSecurity(), environment or {})


def test_tls_and_access_control_are_off_by_default():
    assert secured() == Target("h:1", "here")


def test_a_certificate_option_enables_tls():
    assert secured(CliSecurity(ca="ca.pem")).tls == TlsOptions(ca="ca.pem")
    assert secured(CliSecurity(tls=True)).tls == TlsOptions()
    assert secured(CliSecurity(insecure=True)).tls == TlsOptions(verify=False)


def test_command_line_options_take_precedence_over_the_context():
    saved = CliSecurity(tls=True, ca="saved.pem", access_key="saved")
    assert secured(saved=saved, environment=KEYS).tls == TlsOptions(ca="saved.pem")
    assert secured(saved=saved, environment=KEYS).credentials == Credentials("saved", "s3cret")
    assert secured(CliSecurity(tls=False), saved, KEYS).tls is None
    assert secured(CliSecurity(access_key="me"), saved, KEYS).credentials.access_key == "me"


def test_both_keys_come_from_the_environment():
    assert secured(environment={**KEYS, "ROCKETMQ_SECURITY_TOKEN": "t"}).credentials == Credentials(
        "anna", "s3cret", "t"
    )
    with pytest.raises(click.UsageError, match="ROCKETMQ_SECRET_KEY"):
        secured(CliSecurity(access_key="anna"))
    with pytest.raises(click.UsageError, match="give its access key"):
        secured(environment={"ROCKETMQ_SECRET_KEY": "s3cret"})


def test_contexts_contain_no_secret(tmp_path, monkeypatch):
    file = tmp_path / "contexts.json"
    for name, value in {**KEYS, "ROCKETMQ_CONTEXTS": str(file)}.items():
        monkeypatch.setenv(name, value)
    options = ("--namesrv", "h:1", "--tls-ca", "ca.pem", "--access-key", "anna")
    assert CliRunner().invoke(main, ("context", "set", "prod", *options)).exit_code == 0
    shown = CliRunner().invoke(main, ("context", "show", "prod", "-o", "json"))
    assert "ca.pem" in shown.output
    assert "anna" in shown.output
    assert "s3cret" not in shown.output + file.read_text()


def test_a_key_alone_asks_for_tls_and_for_its_certificate() -> None:
    given = CliSecurity(key="key.pem")
    assert given.over(CliSecurity(tls=False)) == given
    options = given.tls_options()
    assert isinstance(options, TlsOptions)
    with pytest.raises(ConfigError, match="needs its certificate"):
        options.context()
