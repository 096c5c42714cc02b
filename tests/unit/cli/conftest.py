"""No saved context and no environment of the machine matters in these tests."""

import pytest

from rocketmq_py.cli.connect import contexts
from rocketmq_py.cli.connect.connect import NAMESRV_VARIABLE


@pytest.fixture(autouse=True)
def contexts_file(tmp_path, monkeypatch):
    path = tmp_path / "settings" / "contexts.json"
    monkeypatch.setenv(contexts.FILE_VARIABLE, str(path))
    monkeypatch.delenv(NAMESRV_VARIABLE, raising=False)
    return path
