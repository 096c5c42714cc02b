"""``rocketmq``, but a rebuild of consume queues while the broker serves reads only the first parts, and then waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rocketmq_py.broker.rebuilder import Rebuilder
from rocketmq_py.cli.root import main
from rocketmq_py.store import rebuild
from rocketmq_py.store.fs.residency import Loadable
from rocketmq_py.store.log import log_parts

PART_BYTES, PARTS = 5_000, 3


def hold() -> None:
    """Let three parts of the log pass in this process."""
    load, left = Rebuilder._load, iter(range(PARTS))

    async def load_or_wait(self: Rebuilder, parts: Sequence[Loadable]) -> None:
        if next(left, None) is None:
            await asyncio.Event().wait()
        await load(self, parts)  # type: ignore[arg-type]

    log_parts.PART_BYTES = PART_BYTES
    rebuild._COMMIT_EVERY = 1
    Rebuilder._load = load_or_wait  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    hold()
    main()
