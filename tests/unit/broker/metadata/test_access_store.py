"""The file of users and permissions is readable by its owner only, at every moment."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from rocketmq_py.broker.metadata.access_store import open_access
from rocketmq_py.protocol.bodies.access import UserInfo
from rocketmq_py.server.access.conversion import user_of
from rocketmq_py.server.access.settings import AccessSettings

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
