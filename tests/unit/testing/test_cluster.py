"""The parts of the testing package that need no socket."""

import subprocess
import sys

import pytest

import rocketmq_py.testing
from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.testing import Cluster, ManualClock, TcpProxy


def test_a_manual_clock_stands_still_until_it_is_moved():
    clock = ManualClock(1_000)
    assert (clock(), clock()) == (1_000, 1_000)
    assert clock.advance(1.5) == 2_500
    assert clock.advance(ms=7) == clock() == clock.now_ms == 2_507


def test_a_manual_clock_does_not_go_back():
    with pytest.raises(ValueError, match="does not go back"):
        ManualClock().advance(-1)


def test_the_plugin_imports_no_broker():
    code = "import sys, rocketmq_py.testing.plugin; print('rocketmq_py.broker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_every_public_name_is_there_and_no_other():
    for name in rocketmq_py.testing.__all__:
        assert getattr(rocketmq_py.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Custer'"):
        _ = rocketmq_py.testing.Custer


def test_a_stopped_cluster_raises():
    cluster = Cluster()
    for use in (lambda: cluster.namesrv, lambda: cluster.directory, lambda: cluster.create_topic("T")):
        with pytest.raises(ClosedError, match="the cluster does not run"):
            use()
    assert cluster.addresses == ()
    cluster.stop()


@pytest.mark.parametrize("brokers", [0, 27])
def test_an_invalid_number_of_brokers_is_refused(brokers):
    with pytest.raises(ConfigError, match="1 to 26"):
        Cluster(brokers)


def test_a_proxy_needs_an_address():
    with pytest.raises(ConfigError, match="'nowhere' is not an address"):
        TcpProxy("nowhere")
    with pytest.raises(ClosedError, match="the proxy does not run"):
        TcpProxy("127.0.0.1:1").kill()


def test_old_names_of_the_chaos_kit_raise_with_the_new_place():
    with pytest.raises(AttributeError, match="tests/chaoskit of a source checkout"):
        _ = rocketmq_py.testing.Chaos
