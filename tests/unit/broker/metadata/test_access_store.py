"""The file of users and permissions: readable by its owner only, and followed by other processes."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from rocketmq_py.broker.metadata import access_store
from rocketmq_py.broker.metadata.access_store import FollowedAccess, open_access
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.access import UserInfo
from rocketmq_py.server import Peer
from rocketmq_py.server.access.conversion import user_of
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.wire.command import Command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")


def test_the_file_is_created_for_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    sync = os.fsync

    def note_mode(fd: int) -> None:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISDIR(mode):
            modes.append(stat.S_IMODE(mode))
        sync(fd)

    monkeypatch.setattr(os, "fsync", note_mode)
    config = tmp_path / "config"
    config.mkdir()
    (config / "access.json.tmp").write_text("left behind by a crash")
    (config / "access.json.tmp").chmod(0o644)
    access = open_access(AccessSettings(), tmp_path, "c")
    for name in ("one", "two"):
        access.table.create_user(user_of(UserInfo(username=name, password="secret")))
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in config.iterdir()}
    assert files == {"access.json": 0o600, "access.json.bak": 0o600, "access.json.sum": 0o600}
    assert modes
    assert set(modes) == {0o600}
    assert [user.name for user in open_access(AccessSettings(), tmp_path, "c").table.users()] == ["one", "two"]


def test_a_damaged_file_without_a_backup_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "access.json").write_text("{")
    with pytest.raises(ConfigError, match=r"access\.json is damaged, and so is its backup: restore or remove it"):
        open_access(AccessSettings(), tmp_path, "c")
    (config / "access.json").write_text("")
    assert open_access(AccessSettings(), tmp_path, "c").table.users() == []


# -- a file that another process changes


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(access_store.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def names(followed: FollowedAccess) -> list[str]:
    """The users after a request."""
    refusal = followed.admit(Peer(), Command(10))
    assert refusal is not None, "it is not signed"
    return [user.name for user in followed._control.table.users()]


def created(root: Path, name: str) -> None:
    open_access(AccessSettings(), root, "c").table.create_user(user_of(UserInfo(username=name, password="p")))


def test_changes_are_seen_after_a_second(tmp_path: Path, clock: Clock) -> None:
    followed = FollowedAccess(AccessSettings(), tmp_path, "c")
    assert names(followed) == []
    created(tmp_path, "one")
    clock.now += 1.0
    assert names(followed) == []
    clock.now += 0.1
    assert names(followed) == ["one"]
    created(tmp_path, "two")
    clock.now += 1.0
    assert names(followed) == ["one"]
    clock.now += 0.1
    assert names(followed) == ["one", "two"]


def test_a_file_that_stays_is_not_read_again(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    created(tmp_path, "one")
    followed = FollowedAccess(AccessSettings(), tmp_path, "c")
    control = followed._control
    for _ in range(3):
        clock.now += 2
        assert names(followed) == ["one"]
    assert followed._control is control
    (tmp_path / "config" / "access.json").touch()
    clock.now += 2
    assert names(followed) == ["one"]
    assert followed._control is not control


def test_users_stay_when_the_file_cannot_be_read(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    created(tmp_path, "one")
    followed = FollowedAccess(AccessSettings(), tmp_path, "c")
    (tmp_path / "config" / "access.json").write_text('{"users": 7}')
    os.utime(tmp_path / "config" / "access.json", (1, 1))  # another program wrote it, not in the same millisecond
    for _ in range(2):
        clock.now += 2
        assert names(followed) == ["one"]
    said = [record.getMessage() for record in caplog.records if "stay as they were" in record.getMessage()]
    assert len(said) == 1
    assert str(tmp_path / "config" / "access.json") in said[0]


def test_a_file_that_is_removed_has_no_users(tmp_path: Path, clock: Clock) -> None:
    created(tmp_path, "one")
    followed = FollowedAccess(AccessSettings(), tmp_path, "c")
    for path in (tmp_path / "config").iterdir():
        path.unlink()
    clock.now += 2
    assert names(followed) == []


@pytest.mark.parametrize("enabled", [True, False])
def test_requests_are_checked_if_the_settings_say_so(tmp_path: Path, enabled: bool) -> None:
    assert FollowedAccess(AccessSettings(authentication_enabled=enabled), tmp_path, "c").enabled is enabled
