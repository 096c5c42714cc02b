"""Check of the whole store at a bounded rate while the broker serves (``scrubBytesPerSecond``), and its healing.

Damaged records that the check finds, or a read, are taken from another broker of this name, if one has them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from rocketmq_py.broker.ha.replicas import Replicas
from rocketmq_py.broker.log_pass import LogPass
from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import MessageStore
from rocketmq_py.store.read.record_check import Suspect
from rocketmq_py.store.read.scrub import Counts, Gap, Scrub

_log = logging.getLogger(__name__)

_PASS_MS = 24 * 3600 * 1000
"""Minimum time from the begin of a pass over the log to the begin of the next one."""


_RETRY_MS = 60 * 1000
"""Time to the next attempt to heal what reads have met and no replica had; it doubles with each one, up to a day."""
_MOST_LEFT = 100


class Scrubber(LogPass):
    """Reads the log part by part in a thread, and checks the parts in slices on the event loop.

    :param clock: returns the time in milliseconds.
    :param replicas: where damaged records are looked for.
    """

    _retry_ms: int
    """From the last look at what reads have met to the next one; the first look sets it."""

    def __init__(self, store: MessageStore, slices: SlicedWork, clock: Callable[[], int], replicas: Replicas) -> None:
        super().__init__(store, slices, "rocketmq-scrub", "the store cannot be checked")
        self._clock = clock
        self._replicas = replicas
        self._scrub: Scrub | None = None
        """Made by the first tick: the store is not open before."""
        self._ticked_at = clock()
        self._pass_began = 0
        self._is_in_pass = False
        self._allowed = 0.0
        """Bytes that may be read now; negative after a part that was longer."""
        self._left: deque[Suspect] = deque(maxlen=_MOST_LEFT)
        """Where reads have met damage that could not be healed."""
        self._retry_at = 0

    @property
    def counts(self) -> Counts:
        """What was checked and found since the broker was started."""
        return self._scrub.counts if self._scrub is not None else Counts()

    def tick(self) -> None:
        """Start the check of the next parts if the rate allows it, and of what reads have met. Called periodically."""
        now = self._clock()
        rate = self._store.config.scrub_bytes_per_second
        self._allowed = min(self._allowed + rate * (now - self._ticked_at) / 1000, rate)
        self._ticked_at = now
        if self._work.runs:
            return
        scrub = self._scrub = self._scrub or self._store.new_scrub()
        is_due = rate > 0 and self._allowed > 0 and (self._is_in_pass or now - self._pass_began >= _PASS_MS)
        if is_due and not self._is_in_pass:
            self._is_in_pass, self._pass_began = True, now
        if is_due or scrub.has_suspects or (self._left and now >= self._retry_at):
            self._start(self._run(scrub, goes_on=is_due))

    async def _run(self, scrub: Scrub, *, goes_on: bool) -> None:
        """Heal what reads have met; check parts until the bytes that may be read are used up, or the pass has ended.

        :param goes_on: whether parts are checked.
        """
        await self._look_at_suspects(scrub)
        while goes_on and self._allowed > 0 and self._store.config.scrub_bytes_per_second > 0:
            if not await self._check_part(scrub):
                self._is_in_pass = False
                _log.info("the whole store is checked: %s", self.counts)
                return
            self._allowed -= scrub.part_bytes + scrub.index_bytes

    async def _look_at_suspects(self, scrub: Scrub) -> None:
        """Heal what reads have met since the last call, and what could not be healed before if that is due."""
        now, suspects = self._clock(), scrub.take_suspects()
        if now >= self._retry_at:
            self._retry_ms = min(2 * self._retry_ms, _PASS_MS) if self._left else _RETRY_MS
            self._retry_at = now + self._retry_ms
            suspects += self._left
            self._left.clear()
        ends: dict[int, int] = {}
        for suspect in suspects:  # many reads meet the same damage
            if not any(begin <= suspect.damage < end for begin, end in ends.items()):
                ends[suspect.damage] = await self._look_at(scrub, suspect)

    async def _look_at(self, scrub: Scrub, suspect: Suspect) -> int:
        """Check the log from the record before the damage on, and heal that; return where the check has ended."""
        window = scrub.at(suspect.start)
        end = suspect.damage
        while window.position <= suspect.damage or window.is_in_damage:
            goes_on = await self._check_part(window)
            end = max(end, window.position)
            if not goes_on:
                break
        scrub.add_counts(window)
        if not window.counts.records_healed:
            self._left.append(suspect)
        return end

    async def _check_part(self, scrub: Scrub) -> bool:
        """Check the next part and heal what is damaged; return False at the end of the log."""
        part = scrub.begin()
        if part is not None:
            await self._load([part])
            await self._slices.run(scrub.records())
        await self._check_queues(scrub)  # at the end of the log, the rest of the index
        for gap in scrub.take_gaps():
            await self._heal(scrub, gap)
        return part is not None

    async def _check_queues(self, scrub: Scrub) -> None:
        await self._load(scrub.entries())
        await self._slices.run(scrub.queues())
        while entries := scrub.entries():
            await self._load(entries)
            await self._slices.run(scrub.queues())

    async def _heal(self, scrub: Scrub, gap: Gap) -> None:
        """Fill a damaged part of the log with the records of replicas, from its begin on, as far as they have them."""
        at, begin, records, sources = gap.begin, gap.begin, 0, dict[str, None]()
        while at < gap.end:
            address, pieces = await self._replicas.pieces(scrub, gap, at)
            if not pieces:
                break
            scrub.fill(pieces)
            await self._check_queues(scrub)
            at, begin = pieces[-1].end, min(begin, pieces[0].begin)
            records += sum(piece.found is not None for piece in pieces)
            sources[address] = None
        if sources:
            _log.warning(
                "the commit log is healed from %d to %d with %d records of %s",
                gap.begin,
                at,
                records,
                ", ".join(sources),
            )

    def close(self) -> None:
        """Stop the thread, and close the connections to replicas."""
        self._replicas.close()
        super().close()
