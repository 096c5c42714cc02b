"""The guide to settings and the help of ``rocketmq serve`` agree with the code."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from rocketmq_py.broker import stats
from rocketmq_py.broker.config.broker_config import BrokerConfig, configure, java_key, java_settings
from rocketmq_py.broker.config.live_settings import AT_START
from rocketmq_py.cli import main
from rocketmq_py.errors import ConfigError
from rocketmq_py.store import StoreConfig
from tests.docs.settings_table import COMMAND, PAGE, expected

GUIDE = PAGE.read_text()


def test_keys_read_at_the_start_are_listed() -> None:
    listed = re.search(r"Read at the start only: (.*?)\.\n\n", GUIDE, re.DOTALL)
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1])) == set(map(java_key, AT_START))


def test_the_tables_of_keys_are_up_to_date() -> None:
    assert expected(GUIDE) == GUIDE, f"run: {COMMAND}"


def test_error_messages_of_settings_are_quoted_correctly() -> None:
    said = re.search(r"^Error: (.*)$", GUIDE, re.MULTILINE)
    assert said is not None
    with pytest.raises(ConfigError) as caught:
        configure({"brokerNmae": "b", "fileReservedTime": "x"})
    assert str(caught.value) == said[1]


def test_all_counters_are_listed() -> None:
    counted = {name for name in vars(stats).values() if isinstance(name, str) and re.fullmatch(r"[A-Z_\d]{9,}", name)}
    told = set(re.findall(r"`([A-Z][A-Z_\d]{8,})`", GUIDE[: GUIDE.index("## All keys")]))
    assert counted == told | {f"{name}_WITHOUT_SYSTEM_TOPIC" for name in told if name.startswith("BROKER")}


def test_the_help_shows_actual_defaults() -> None:
    told = re.findall(r"^ {4}(\w+)=(\S+) ", CliRunner().invoke(main, ["serve", "--help"]).output, re.MULTILINE)
    defaults = java_settings(BrokerConfig()) | java_settings(StoreConfig())
    assert len(told) == 11
    for key, value in told:
        assert defaults[key].startswith(value.strip("'")), key
