"""The commands of the operations guide work as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from rocketmq_py.broker.config.broker_config import java_key
from rocketmq_py.cli import main
from rocketmq_py.store import MessageStore, NewRecord, StoreConfig

GUIDE = (Path(__file__).parents[2] / "docs" / "operations" / "index.md").read_text()
COMMANDS = re.findall(r"^rocketmq (store .*)$", GUIDE, re.MULTILINE)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = StoreConfig(mapped_file_size_commit_log=65536, max_hash_slot_num=10, max_index_num=40)
    store = MessageStore(Path("store"), config, store_host=bytes(8))
    store.open()
    for i in range(20):
        store.append(NewRecord("orders", 0, b"%d" % i, b"UNIQ_KEY\x01U%d\x02" % i, uniq_key=f"U{i}"))
    store.close()


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_guide_work(command: str, here: None) -> None:
    result = CliRunner().invoke(main, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert result.output


def test_defaults_of_the_guide_are_those_of_the_code() -> None:
    config = StoreConfig()
    for field in config.__struct_fields__:
        for key, value in re.findall(rf"`({java_key(field)})` \(`?(\d+)", GUIDE):
            assert str(getattr(config, field)) == value, key
    assert len(COMMANDS) == 6
