"""Settings that ask for a feature this broker does not have are refused by name."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.config.broker_config import configure, is_known
from rocketmq_py.broker.config.java_keys import JAVA_DEFAULTS
from rocketmq_py.broker.config.unsupported import UNSUPPORTED
from rocketmq_py.errors import ConfigError


@pytest.mark.parametrize("key", sorted(UNSUPPORTED))
def test_another_value_is_refused_and_the_default_accepted(key: str) -> None:
    accepted, why = UNSUPPORTED[key]
    assert JAVA_DEFAULTS[key] == accepted
    configure({key: accepted.upper()})
    other = "true" if accepted == "false" else "other"
    with pytest.raises(ConfigError) as caught:
        configure({key: other})
    assert str(caught.value) == f"{key} is {other!r}: {why}"


def test_several_directories_of_the_log_are_refused() -> None:
    with pytest.raises(ConfigError, match="storePathCommitLog is '/a,/b': this broker keeps the commit log in one"):
        configure({"storePathCommitLog": "/a,/b"})


@pytest.mark.parametrize("key", ["tieredStoreFilePath", "controllerDLegerGroup", "readAheadCacheEnable"])
def test_keys_of_other_parts_of_java_have_no_effect(key: str) -> None:
    broker, _ = configure({key: "x"})
    assert broker.ignored == {key: "x"}
    assert is_known(key)


def test_values_of_secrets_are_not_in_the_list_of_ignored_settings() -> None:
    broker, _ = configure({"objectStoreSecretKey": "hidden", "objectStoreBucket": "b"})
    assert broker.ignored_text() == "objectStoreBucket=b, objectStoreSecretKey"
