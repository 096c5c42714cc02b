"""A running broker finds a bit that its disk lost, while messages are sent."""

from __future__ import annotations

from pathlib import Path

from rocketmq_py import Admin, Message, Producer
from rocketmq_py.testing import Cluster
from tests.server.cli import eventually


def test_a_bit_that_a_disk_lost_is_found_while_the_broker_serves(tmp_path: Path) -> None:
    with Cluster(store_dir=tmp_path) as cluster, Admin(namesrv=cluster.namesrv) as admin:
        [address] = cluster.addresses
        cluster.create_topic("t", 4)
        with Producer("p", namesrv=cluster.namesrv) as producer:
            for _ in range(20):
                producer.send_batch([Message("t", b"x" * 1000) for _ in range(32)])
            [log] = sorted(tmp_path.glob("**/commitlog/*"))[:1]
            with log.open("r+b") as file:
                file.seek(100_000)
                [byte] = file.read(1)
                file.seek(100_000)
                file.write(bytes([byte ^ 1]))
            admin.update_broker_config(address, {"scrubBytesPerSecond": "100000000"})
            found = eventually(lambda: admin.broker_state(address), lambda state: state["scrubPasses"] != "0")
            assert (found["scrubDamages"], found["scrubRebuiltEntries"]) == ("1", "0")
            assert int(found["scrubbedRecords"]) >= 639
            assert producer.send(Message("t", b"x")).queue_offset >= 0
