"""Lines about closed connections: limited for each host and for all, and the others counted."""

from rocketmq_py.server import Peer
from rocketmq_py.server.fault_log import FaultLog


def test_each_host_has_some_lines_a_minute_and_the_next_line_counts_the_others(caplog):
    now = 0.0
    faults = FaultLog(lambda: now)
    for number in range(100):
        faults.closing(Peer(("10.0.0.1", 600 * number)), "no frame")
    assert caplog.messages == [f"closing the connection of 10.0.0.1:{port}: no frame" for port in (0, 600, 1200)]
    faults.closing(Peer(("10.0.0.2", 1)), "no frame")
    assert len(caplog.records) == 4
    assert "10.0.0.2:1: no frame (97 more since the last such line)" in caplog.text
    caplog.clear()
    now = 60.0
    faults.closing(Peer(("10.0.0.1", 1)), "no frame")
    assert caplog.messages == ["closing the connection of 10.0.0.1:1: no frame"]


def test_many_hosts_do_not_get_round_it(caplog):
    faults = FaultLog(lambda: 0.0)
    for number in range(1000):
        faults.closing(Peer((f"2001:db8::{number:x}", 1)), "no frame")
    assert len(caplog.records) == 20


def test_refused_heartbeats_share_the_limit_and_name_client_address_and_reason(caplog):
    faults = FaultLog(lambda: 0.0)
    peer = Peer(("10.0.0.1", 7))
    faults.closing(peer, "no frame")
    for number in range(10):
        faults.refused_heartbeat(peer, b'{"clientID":"c%d"}' % number, "GO", "too many client ids")
    assert caplog.messages[1:] == [
        f"the heartbeat of client 'c{number}' (GO) at 10.0.0.1:7 is refused: too many client ids" for number in range(2)
    ]
