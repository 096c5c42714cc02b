"""The cache directory: the user's, or a temporary one if that cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.spark.runtime.cache import cache


def test_the_cache_is_where_the_user_keeps_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "some" / "where"))
    assert cache() == cache() == tmp_path / "some" / "where" / "rocketmq-py"
    assert cache().is_dir()
    for unset in ("", None):
        monkeypatch.setenv("HOME", str(tmp_path))
        if unset is None:
            monkeypatch.delenv("XDG_CACHE_HOME")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert cache() == tmp_path / ".cache" / "rocketmq-py"


def test_a_cache_that_cannot_be_made_is_a_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert (cache().parent, cache().is_dir()) == (tmp_path, True)
    assert cache() != cache()
    assert cache().name.startswith("rocketmq-py-")
