"""The file of users and permissions: readable by its owner only, at every moment, and followed by other servers."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocketmq_py.broker.metadata import access_store
from rocketmq_py.broker.metadata.access_store import FollowedAccess, open_access
from rocketmq_py.core.access.permissions import User
from rocketmq_py.errors import ConfigError
from rocketmq_py.server import Peer
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.signing import sign

# -- a broker in another process


class Watched:
    """Access control by the file of a broker elsewhere, which the test changes; ``now`` is its monotonic clock."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.root = root
        monkeypatch.setattr(access_store, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.owner = open_access(AccessSettings(), root, "c")
        self.owner.table.create_user(User(name="amy", password="one"))
        self.stamp = 1
        self.stamped()
        settings = AccessSettings(authentication_enabled=True)
        self.followed = FollowedAccess(settings, root, "c")

    def stamped(self) -> None:
        """Each version of the file has another time, however coarse the clock of the disk is."""
        self.stamp += 1
        os.utime(self.root / "config" / "access.json", ns=(self.stamp, self.stamp))

    def refusal(self, name: str = "amy", password: str = "one") -> str | None:
        request = Command(34, 1)
        request.ext = {"AccessKey": name}
        request.ext["Signature"] = sign(request.ext, request.body, password)
        reply = self.followed.admit(Peer(("10.0.0.9", 1), ("127.0.0.1", 2), lambda _: None), request)
        assert reply is None or reply.code == 16
        return None if reply is None else reply.remark


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(tmp_path, monkeypatch)


def test_the_users_of_the_broker_are_followed(watched: Watched) -> None:
    assert watched.followed.enabled
    assert watched.refusal() is None
    assert watched.refusal(password="two") == "check signature failed."
    assert watched.refusal("bob") == "User:bob is not found."


def test_access_control_that_is_off_is_off(tmp_path: Path) -> None:
    assert not FollowedAccess(AccessSettings(), tmp_path, "c").enabled


def test_a_changed_file_is_read_after_more_than_a_second(watched: Watched) -> None:
    watched.owner.table.update_user("amy", "two", None, None)
    watched.stamped()
    watched.now += 1.0
    assert watched.refusal(password="one") is None, "not looked at yet"
    watched.now += 0.01
    assert watched.refusal(password="two") is None
    assert watched.refusal(password="one") == "check signature failed."


def test_a_file_that_has_not_changed_is_not_read_again(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = watched.followed._read
    monkeypatch.setattr(watched.followed, "_read", lambda: reads.append(1) or read())
    for _ in range(3):
        watched.now += 2
        assert watched.refusal() is None
    assert reads == []
    watched.stamped()
    for _ in range(3):
        watched.now += 2
        assert watched.refusal() is None
    assert reads == [1]


def test_a_file_that_appears_later_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(access_store, "time", SimpleNamespace(monotonic=lambda: now[0]))
    followed = FollowedAccess(AccessSettings(authentication_enabled=True), tmp_path, "c")
    assert followed._stat() == (0, 0)
    open_access(AccessSettings(), tmp_path, "c").table.create_user(User(name="amy", password="one"))
    now[0] += 2
    peer = Peer(("10.0.0.9", 1), ("127.0.0.1", 2), lambda _: None)
    followed.admit(peer, Command(34, 1))
    assert followed._control.table.user("amy") is not None


def test_a_damaged_file_leaves_the_users_as_they_were(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    file = watched.root / "config" / "access.json"
    file.write_text('{"users": 7}')
    watched.stamped()
    watched.now += 2
    assert watched.refusal() is None
    assert "users and permissions stay as they were, because" in caplog.text
    assert str(file) in caplog.text
    watched.now += 2
    assert watched.refusal() is None
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("content", "fails"), [(b"no JSON", True), (b"", False)])
def test_a_damaged_file_without_a_backup_ends_the_start(tmp_path: Path, content: bytes, fails: bool) -> None:
    file = tmp_path / "config" / "access.json"
    file.parent.mkdir()
    file.write_bytes(content)
    if fails:
        with pytest.raises(ConfigError, match="is damaged, and so is its backup: restore or remove it"):
            open_access(AccessSettings(), tmp_path, "c")
    else:
        assert open_access(AccessSettings(), tmp_path, "c").table.users() == []
