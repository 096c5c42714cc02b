"""No saved context and no environment of the machine matters in these tests; clusters are in memory."""

import io
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from rocketmq_py.cli import main
from rocketmq_py.cli.connect import contexts
from rocketmq_py.cli.connect.connect import NAMESRV_VARIABLE, Target
from rocketmq_py.cli.output import prompts
from tests.unit.cli.memory_admin import MemoryAdmin


@pytest.fixture(autouse=True)
def contexts_file(tmp_path, monkeypatch):
    path = tmp_path / "settings" / "contexts.json"
    monkeypatch.setenv(contexts.FILE_VARIABLE, str(path))
    monkeypatch.delenv(NAMESRV_VARIABLE, raising=False)
    return path


@pytest.fixture
def admin(monkeypatch):
    """The cluster that commands reach."""
    memory = MemoryAdmin()

    def connected(_, *, skip_silent=False):
        memory.skips_silent = skip_silent
        return memory

    monkeypatch.setattr(Target, "admin", connected)
    yield memory
    assert memory.opened == memory.closed


@pytest.fixture
def run():
    """Runs a command line, words in a string or one by one: ``run("topic ls")``."""

    def invoke(*words, **options):
        line = words[0].split() if len(words) == 1 else words
        return CliRunner().invoke(main, line, **options)

    return invoke


@pytest.fixture
def terminal(monkeypatch):
    """Questions are asked: ``run(..., input="y\\n")`` answers."""
    stdin = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(prompts, "sys", SimpleNamespace(stdin=stdin, stderr=io.StringIO()))
