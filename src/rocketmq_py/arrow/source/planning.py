"""Plan a bounded read: look up queues and positions, and return the ranges of offsets to read."""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_py.arrow.options.offsets import Boundary, Offsets
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.ranges import report_losses
from rocketmq_py.arrow.remoting.queues import QueueRoutes
from rocketmq_py.arrow.source.origin import Origin
from rocketmq_py.arrow.source.plan import SourcePlan, batch_plan, beyond_the_end
from rocketmq_py.arrow.source.positions import locate
from rocketmq_py.arrow.source.pruning import Pruning

STARTING, ENDING = "startingOffsets", "endingOffsets"


class PlannedRead(NamedTuple):
    """The ranges of a bounded read with its losses, and the addresses of the queues' brokers."""

    plan: SourcePlan
    queues: QueueRoutes


def plan_read(options: ReadOptions, origin: Origin, pruning: Pruning | None = None) -> PlannedRead:
    """Look up the start and end offset of each selected queue, and plan to read what is between them.

    :param pruning: conditions that every row must meet; messages that cannot meet them are not read.
    :raises DataLossError: the read starts behind the end of a queue, and ``failOnDataLoss`` is true.
    :raises RocketMQError: a selected topic does not exist, or a broker does not respond.
    """
    queues = origin.selected(options.selection)
    bounds = origin.bounds(queues)
    start = locate(options.start or Boundary.EARLIEST, STARTING, origin, queues, bounds)
    stop = locate(options.end, ENDING, origin, queues, bounds)
    report_losses(beyond_the_end(start, bounds), options.fail_on_data_loss)
    if pruning is not None:
        start, stop = _narrow(pruning, start, stop, origin, queues)
    return PlannedRead(batch_plan(start, stop, bounds), queues)


def _narrow(
    pruning: Pruning, start: Offsets, stop: Offsets, origin: Origin, queues: QueueRoutes
) -> tuple[Offsets, Offsets]:
    chosen = QueueRoutes({queue: at for queue, at in queues.addresses.items() if pruning.wants(queue)})
    since, before = (
        {} if not pruning.by_time else origin.since(chosen, dict.fromkeys(chosen.addresses, time))
        for time in pruning.times
    )
    first, last = ({queue: offsets[queue] for queue in chosen.addresses} for offsets in (start, stop))
    return pruning.narrow(first, last, since, before)
