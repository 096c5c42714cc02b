"""``rocketmq broker``: which broker is meant, its settings, and what a change of settings did."""

from __future__ import annotations

import json

import pytest

from rocketmq_py.cli.broker.commands import address_of, ignored_setting
from rocketmq_py.cli.output.failures import CommandFailure, Status
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo

PAIR = ClusterInfo(
    broker_addr_table={
        "a": BrokerData(cluster="c", broker_name="a", broker_addrs={0: "h1:1", 1: "h2:2"}),
        "b": BrokerData(cluster="c", broker_name="b", broker_addrs={2: "h3:3"}),
    },
    cluster_addr_table={"c": ["a", "b"]},
)


@pytest.mark.parametrize(
    ("meant", "address"), [("a", "h1:1"), ("a:0", "h1:1"), ("a:1", "h2:2"), ("b:2", "h3:3"), ("h3:3", "h3:3")]
)
def test_a_broker_is_a_name_a_name_with_an_id_or_an_address(meant: str, address: str) -> None:
    assert address_of(PAIR, meant) == address


@pytest.mark.parametrize("meant", ["b", "a:7", "h1:9", "", "x"])
def test_an_unknown_broker_name_lists_the_registered_brokers(meant: str) -> None:
    with pytest.raises(CommandFailure, match="Registered: a:0 at h1:1, a:1 at h2:2, b:2 at h3:3") as refused:
        address_of(PAIR, meant)
    assert refused.value.exit_code == Status.NOT_FOUND


def test_a_cluster_without_brokers_is_reported() -> None:
    with pytest.raises(CommandFailure, match="Registered: none"):
        address_of(ClusterInfo(), "a")


@pytest.mark.parametrize(
    ("value", "before", "now", "words"),
    [
        ("1", {"key": "0"}, {"key": "1"}, None),
        ("+1", {"key": "0"}, {"key": "1"}, None),
        ("TRUE", {"key": "true"}, {"key": "true"}, None),
        ("1", {}, {"key": "1"}, None),
        ("x", {"key": "0"}, {"key": "0"}, "key is still '0'"),
        ("1", {"kay": "0"}, {"kay": "0"}, "unknown setting 'key'; did you mean 'kay'?"),
    ],
)
def test_a_setting_without_effect_is_reported(
    value: str, before: dict[str, str], now: dict[str, str], words: str | None
) -> None:
    assert ignored_setting("key", value, before, now) == words


# -- settings and set


SLAVE = "h2:2"


@pytest.fixture
def pair(admin):
    """Broker a has a slave; their settings differ in one value."""
    admin.info = PAIR
    admin.configs = {
        "h1:1": {"listenPort": "1", "brokerName": "a", "haListenPort": "2"},
        SLAVE: {"listenPort": "2", "brokerName": "a"},
    }
    return admin


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("a", {"brokerName": "a", "haListenPort": "2", "listenPort": "1"}),
        ("a listenport", {"listenPort": "1"}),
        ("a *PORT", {"haListenPort": "2", "listenPort": "1"}),
        ("a brokerName listenPort nix", {"brokerName": "a", "listenPort": "1"}),
        ("a:1 listenPort", {"listenPort": "2"}),
        ("h2:2 listenPort", {"listenPort": "2"}),
    ],
)
def test_settings_of_a_broker_are_shown_by_name(pair, run, words, shown):
    result = run(f"broker settings {words} -o json")
    assert result.exit_code == 0, result.output
    assert list(json.loads(result.stdout).items()) == list(shown.items())


def test_a_setting_that_no_broker_has_is_not_found(pair, run):
    refused = run("broker settings a nix nox")
    assert refused.exit_code == 3
    assert "broker a has no setting nix or nox" in refused.output
    assert run("broker settings c").exit_code == 3


def test_a_change_is_shown_as_the_broker_has_it(pair, run):
    result = run("broker set a:1 listenPort=3 brokerName=b")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "listenPort=3\nbrokerName=b\n", "")
    assert pair.changes == [("update_broker_config", SLAVE, {"listenPort": "3", "brokerName": "b"})]
    assert pair.configs["h1:1"]["listenPort"] == "1"


def test_the_remark_of_a_broker_is_on_standard_error(pair, run):
    pair.remark = "takes effect at the next start: listenPort"
    result = run("broker set a listenPort=3")
    assert (result.exit_code, result.stderr) == (0, "takes effect at the next start: listenPort\n")


def test_an_ignored_setting_is_a_failure_and_the_others_are_shown(pair, run):
    result = run("broker set a listenPrt=3 listenPort=4 nix=1")
    assert (result.exit_code, result.stdout) == (1, "listenPort=4\n")
    assert "broker a ignored settings: unknown setting 'listenPrt'; did you mean 'listenPort'?; unknown" in (
        result.stderr
    )


@pytest.mark.parametrize("words", ["a", "a x", "a =1"])
def test_a_change_has_the_form_key_value(pair, run, words):
    assert run(f"broker set {words}").exit_code == 2
    assert pair.changes == []
