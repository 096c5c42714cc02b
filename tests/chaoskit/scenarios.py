"""Scenarios by name: what may happen to a cluster any day, and must cost time only.

Each says who is hurt, how, and what goes on meanwhile. Whatever is still broken at the end is mended by the runner,
which then wants every acknowledged message consumed, in order where there is one, and no offset ahead of the work.
"""

from __future__ import annotations

from tests.chaoskit.chaos import Chaos, Scenario


def broker_killed(chaos: Chaos) -> None:
    """A sudden end (kill -9) of a broker; it comes back with its store."""
    broker = chaos.any_broker()
    broker.kill()
    chaos.wait_for_progress()
    broker.start()
    chaos.wait_for_progress(through=broker)


def broker_frozen(chaos: Chaos) -> None:
    """A broker hangs for five seconds, with all its connections open."""
    broker = chaos.any_broker()
    broker.freeze()
    chaos.keep_for(5)
    broker.unfreeze()
    chaos.wait_for_progress(through=broker)


def slow_network(chaos: Chaos) -> None:
    """Everything to and from a broker takes 200 ms, and is narrow."""
    broker = chaos.any_broker()
    broker.proxy.delay = 0.2
    broker.proxy.bytes_per_second = 50_000
    chaos.wait_for_progress(through=broker)


def cut_network(chaos: Chaos) -> None:
    """All connections to a broker break, and none can be made for a while."""
    broker = chaos.any_broker()
    broker.proxy.refuse()
    chaos.wait_for_progress()
    broker.proxy.start()
    chaos.wait_for_progress(through=broker)


def half_open_network(chaos: Chaos) -> None:
    """A broker sees its clients go; they do not see it."""
    broker = chaos.any_broker()
    broker.proxy.half_open()
    chaos.wait_for_progress()


def name_server_killed(chaos: Chaos) -> None:
    """A sudden end (kill -9) of a name server; a broker is killed and started while it is away."""
    name_server, broker = chaos.any_name_server(), chaos.any_broker()
    name_server.kill()
    broker.kill()
    chaos.wait_for_progress()
    broker.start()
    chaos.wait_for_progress(through=broker)
    name_server.start()


def consumer_killed(chaos: Chaos) -> None:
    """A sudden end (kill -9) of a consumer; another one takes its queues, then it comes back."""
    consumer = chaos.any_consumer()
    consumer.kill()
    chaos.wait_for_progress(200)
    consumer.start()


def orderly_consumer_killed(chaos: Chaos) -> None:
    """A sudden end (kill -9) of a consumer that has locked its queues; others wait until the locks expire."""
    consumer = chaos.any_orderly_consumer()
    consumer.kill()
    chaos.wait_for_ordered_progress()
    consumer.start()


def disk_full(chaos: Chaos) -> None:
    """A broker has no room left for a while: it refuses, it does not forget."""
    broker = chaos.any_broker()
    broker.fill_disk()
    chaos.wait_for_progress()
    broker.free_disk()
    chaos.wait_for_progress(through=broker)


def clock_jump(chaos: Chaos) -> None:
    """A broker's wall clock jumps ahead by an hour, then back by two."""
    broker = chaos.any_broker()
    broker.shift_clock(3600)
    chaos.wait_for_progress(through=broker)
    broker.shift_clock(-3600)
    chaos.wait_for_progress(through=broker)


def rolling_restart(chaos: Chaos) -> None:
    """Every server is restarted in good order, one after the other."""
    for server in [*chaos.slaves, *chaos.brokers, *chaos.name_servers]:
        server.stop()
        server.start()
        chaos.wait_for_progress()


def master_killed(chaos: Chaos) -> None:
    """A sudden end (kill -9) of a master that waits for its slave; consumers go on there until it is back."""
    master = chaos.brokers[0]
    master.kill()
    chaos.wait_for_progress()
    master.start()
    chaos.wait_for_progress(through=master)


def slave_killed(chaos: Chaos) -> None:
    """A sudden end (kill -9) of a slave; its master acknowledges nothing until it is back."""
    master, slave = chaos.brokers[0], chaos.slaves[0]
    slave.kill()
    chaos.wait_for_progress(20)
    slave.start()
    chaos.wait_for_progress(through=master)


def split_link(chaos: Chaos) -> None:
    """Master and slave lose each other while members reaches both; then the slave catches up."""
    master, slave = chaos.brokers[0], chaos.slaves[0]
    slave.link.refuse()
    chaos.wait_for_progress(20)
    slave.link.start()
    chaos.wait_for_progress(through=master)


ALL: dict[str, Scenario] = {
    scenario.__name__.replace("_", "-"): scenario
    for scenario in (
        broker_killed, broker_frozen, slow_network, cut_network, half_open_network, name_server_killed,
        consumer_killed, orderly_consumer_killed, disk_full, clock_jump, rolling_restart,
    )
}  # fmt: skip
"""By the names ``make chaos`` takes."""
PAIRED: dict[str, Scenario] = {
    scenario.__name__.replace("_", "-"): scenario for scenario in (master_killed, slave_killed, split_link)
}
"""For clusters where the first of several masters has a slave."""

NEED_SEAMS = frozenset({"disk-full", "clock-jump"})
"""Only for servers whose clock and disk a test commands (:mod:`tests.chaoskit.node`)."""
