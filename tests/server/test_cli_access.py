"""``rocketmq access`` on an embedded cluster with access control, as administrator and as ordinary user.

No secret is ever in what a verb prints, whoever runs it and however it ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from rocketmq_py import BrokerError, Credentials, Message, Producer
from rocketmq_py.cli.output.failures import Status
from rocketmq_py.testing import Cluster
from tests.server.cli import Cli

ROOT = Credentials("root", "root-secret")
BROKER = Credentials("the-broker", "broker-secret")
PASSWORDS = ("first-password", "second-password")
SECRETS = (ROOT.secret_key, BROKER.secret_key, *PASSWORDS)
GUARDED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key}),
    "innerClientAuthenticationCredentials": json.dumps(
        {"accessKey": BROKER.access_key, "secretKey": BROKER.secret_key}
    ),
}


class SecretCli(Cli):
    """Verbs of one user; none of them may tell a secret."""

    def __init__(self, namesrv: str, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(namesrv)
        self._environment = monkeypatch
        self.sign(ROOT.access_key, ROOT.secret_key)

    def sign(self, access_key: str, secret: str) -> None:
        """Be this user from now on."""
        self._environment.setenv("ROCKETMQ_ACCESS_KEY", access_key)
        self._environment.setenv("ROCKETMQ_SECRET_KEY", secret)

    def password(self, secret: str) -> None:
        """What verbs that need a password for a user take."""
        self._environment.setenv("ROCKETMQ_USER_PASSWORD", secret)

    def __call__(self, *words: object, stdin: str | bytes | None = None) -> Result:
        result = super().__call__(*words, stdin=stdin)
        told = f"{result.output}{result.stderr}{result.exception!r}"
        assert not [secret for secret in SECRETS if secret in told], words
        return result

    def refused(self, *words: object, status: Status = Status.FAILED) -> str:
        """The one line of a verb that must fail."""
        result = self(*words)
        assert (result.exit_code, result.stdout) == (status, ""), (words, result.output)
        return result.stderr

    def permissions(self, *words: str) -> list[tuple[Any, ...]]:
        rows = self.json("access", "acl", "ls", *words)
        return [(row["user"], row["decision"], row["actions"], row["resource"], row["from"]) for row in rows]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(store_dir=tmp_path_factory.mktemp("guarded"), access=GUARDED) as running:
        running.create_topic("orders")
        yield running


@pytest.fixture
def cli(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> SecretCli:
    return SecretCli(cluster.namesrv, monkeypatch)


def send(cluster: Cluster, name: str, secret: str) -> None:
    with Producer("shop", cluster.namesrv, credentials=Credentials(name, secret), retries=0) as producer:
        producer.send(Message("orders", b"hello"))


def test_users_are_created_changed_and_deleted(cli: SecretCli) -> None:
    cli.password(PASSWORDS[0])
    assert cli.ok("access", "user", "create", "ada") == ""
    cli.ok("access", "user", "create", "adam", "--super")
    rows = cli.json("access", "user", "ls", "ada")
    assert [(row["user"], row["type"], row["status"]) for row in rows] == [
        ("ada", "Normal", "enable"), ("adam", "Super", "enable"),
    ]  # fmt: skip
    cli.ok("access", "user", "update", "ada", "--type", "super", "--status", "disable")
    assert cli.jsonl("access", "user", "ls", "ada")[0] == {"user": "ada", "type": "Super", "status": "disable"}
    table = cli.ok("access", "user", "ls").splitlines()
    assert table[0].split() == ["user", "type", "status"]
    assert {line.split()[0] for line in table[1:]} >= {"ada", "adam", "root"}
    for name in ("ada", "adam"):
        cli.ok("access", "user", "delete", name, "--yes")
    assert cli.json("access", "user", "ls", "ada") == []
    assert "there is no user 'ada'" in cli.refused("access", "user", "delete", "ada", "--yes", status=Status.NOT_FOUND)


def test_a_password_is_changed_and_never_shown(cluster: Cluster, cli: SecretCli) -> None:
    cli.password(PASSWORDS[0])
    cli.ok("access", "user", "create", "ben")
    cli.ok("access", "acl", "allow", "ben", "Pub", "Topic:orders")
    send(cluster, "ben", PASSWORDS[0])
    cli.password(PASSWORDS[1])
    cli.ok("access", "user", "update", "ben", "--password")
    send(cluster, "ben", PASSWORDS[1])
    with pytest.raises(BrokerError):
        send(cluster, "ben", PASSWORDS[0])
    cli.ok("access", "user", "update", "ben", "--status", "disable")
    with pytest.raises(BrokerError):
        send(cluster, "ben", PASSWORDS[1])


def test_permissions_are_created_changed_and_deleted(cluster: Cluster, cli: SecretCli) -> None:
    cli.password(PASSWORDS[0])
    cli.ok("access", "user", "create", "cleo")
    with pytest.raises(BrokerError, match="cleo"):
        send(cluster, "cleo", PASSWORDS[0])
    cli.ok("access", "acl", "allow", "cleo", "Pub,Sub", "Topic:orders", "Group:g*", "--from", "127.0.0.0/8")
    assert sorted(cli.permissions("cleo"), key=repr) == [
        ("cleo", "Allow", ["Pub", "Sub"], "Group:g*", ["127.0.0.0/8"]),
        ("cleo", "Allow", ["Pub", "Sub"], "Topic:orders", ["127.0.0.0/8"]),
    ]
    send(cluster, "cleo", PASSWORDS[0])
    cli.ok("access", "acl", "deny", "cleo", "Pub", "Topic:orders")
    assert cli.permissions("cleo", "--resource", "orders") == [("cleo", "Deny", ["Pub"], "Topic:orders", [])]
    with pytest.raises(BrokerError):
        send(cluster, "cleo", PASSWORDS[0])
    cli.ok("access", "acl", "delete", "cleo", "Topic:orders", "--yes")
    assert [row[3] for row in cli.permissions("cleo")] == ["Group:g*"]
    cli.ok("access", "acl", "delete", "cleo", "--yes")
    assert cli.permissions("cleo") == []
    told = cli.refused("access", "acl", "delete", "cleo", "--yes", status=Status.NOT_FOUND)
    assert "user 'cleo' has no permissions" in told


def test_a_denied_command_names_the_missing_permission(cli: SecretCli) -> None:
    cli.password(PASSWORDS[0])
    cli.ok("access", "user", "create", "dan")
    cli.sign("dan", PASSWORDS[0])
    for words in (
        ("user", "ls"), ("user", "create", "eve"), ("user", "update", "dan", "--type", "super"),
        ("acl", "ls"), ("acl", "allow", "dan", "All", "*"), ("user", "delete", "root", "--yes"),
    ):  # fmt: skip
        told = cli.refused("access", *words)
        assert "dan" in told, words
        assert "Cluster" in told, words
    cli.sign("dan", "not-the-password")
    assert "signature" in cli.refused("access", "user", "ls")
    cli.sign(ROOT.access_key, ROOT.secret_key)
    assert cli.json("access", "user", "ls", "eve") == []
    assert cli.permissions("dan") == []


def test_invalid_arguments_are_refused(cli: SecretCli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "User:nobody" in cli.refused("access", "acl", "allow", "nobody", "Pub", "Topic:orders")
    assert "Shout" in cli.refused("access", "acl", "allow", "root", "Shout", "Topic:orders", status=Status.USAGE)
    assert "Place:x" in cli.refused("access", "acl", "allow", "root", "Pub", "Place:x", status=Status.USAGE)
    monkeypatch.delenv("ROCKETMQ_USER_PASSWORD", raising=False)
    told = cli.refused("access", "user", "create", "finn", status=Status.USAGE)
    assert "set ROCKETMQ_USER_PASSWORD" in told
    monkeypatch.delenv("ROCKETMQ_SECRET_KEY")
    assert "needs its secret key" in cli.refused("access", "user", "ls", status=Status.USAGE)


def test_users_and_permissions_survive_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for begins in (True, False):
        with Cluster(store_dir=tmp_path, access=GUARDED) as running:
            cli = SecretCli(running.namesrv, monkeypatch)
            if begins:
                cli.password(PASSWORDS[0])
                cli.ok("access", "user", "create", "gwen")
                cli.ok("access", "acl", "allow", "gwen", "List", "Cluster:*")
            assert [row["user"] for row in cli.json("access", "user", "ls", "gwen")] == ["gwen"]
            assert cli.permissions("gwen") == [("gwen", "Allow", ["List"], "Cluster:*", [])]
