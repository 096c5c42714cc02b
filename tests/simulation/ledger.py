"""What happened to the messages of a schedule, and what of it must not have: the judge.

Everything is told as it happens, so that a rule can be checked at once where that is possible; the rest at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Queue = tuple[str, int]
"""The name of a broker and the number of a queue."""


@dataclass(slots=True)
class Delivery:
    """A message in the hands of a listener."""

    at: float
    member: str
    key: str
    queue: Queue
    offset: int
    ended: float | None = None
    ok: bool = False


@dataclass(slots=True)
class Sent:
    """A message that was sent at least once.

    :ivar place: where the acknowledged copy is.
    :ivar places: of a transaction: where copies of it were found.
    :ivar end: of a transaction: True if it was decided to commit, False to roll back.
    """

    key: str
    body: bytes
    is_acked: bool = False
    place: tuple[Queue, int] | None = None
    end: bool | None = None
    places: set[tuple[Queue, int]] = field(default_factory=set)
    is_visible: bool = True
    """False while nobody may receive it: its transaction is not committed."""
    begun: float = 0.0
    """When it was sent last."""
    due: float = 0.0
    """Before this time nobody may receive it."""


@dataclass(slots=True)
class Group:
    """What one consumer group got.

    :ivar orderly: its messages must come in the order of their queues, one at a time.
    """

    name: str
    orderly: bool = False
    commits: bool = True
    deliveries: list[Delivery] = field(default_factory=list)
    running: dict[Queue, Delivery] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    failures: dict[str, int] = field(default_factory=dict)
    """How often listeners failed, by key."""
    handled: dict[Queue, set[int]] = field(default_factory=dict)
    committed: dict[tuple[str, int, Queue], int] = field(default_factory=dict)


class Ledger:
    """The books of one schedule.

    :ivar findings: rules that were broken.
    """

    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self.groups: dict[str, Group] = {}
        self.findings: list[str] = []
        self.lives_overlap = False
        """True if two members may rightly hold a queue: a broker has lost its locks, or a member slept too long."""
        self.offsets_may_fall = False
        """True if an offset may rightly be replaced by a smaller one, of a member that has lost its queue."""
        self.is_calm = False
        """True if nothing goes wrong in this schedule, so that no message comes twice."""
        self.commits_once = False
        """True if a transaction cannot be committed twice: its broker writes at once that it has ended."""
        self.on_ack: Callable[[str, Queue, int], None] = lambda *_: None
        """Called with the key, the queue and the offset of an acknowledged message."""
        self.patience = 30.0
        """So many seconds after the last fault all must have been consumed."""
        self._stored: dict[tuple[Queue, int], str] = {}
        self._doubtful: dict[Queue, range] = {}
        self._lost_at: dict[Queue, float] = {}
        """Offsets of messages that a broker lost, and that it gives to others: who had consumed the lost ones may skip
        these.
        """

    def find(self, what: str) -> None:
        """Note a rule that was broken, once."""
        if what not in self.findings:
            self.findings.append(what)

    # -- producers

    def send(self, key: str, body: bytes, at: float = 0.0) -> Sent:
        """A message is about to be sent."""
        sent = self.sent.setdefault(key, Sent(key, body))
        sent.begun = at
        return sent

    def acknowledge(self, key: str, queue: Queue, offset: int) -> None:
        """A producer was told that a message is safe, and where."""
        sent = self.sent[key]
        if sent.begun <= self._lost_at.get(queue, -1.0) and self.is_doubtful(queue, offset):
            return  # the answer was on its way when its broker lost the message
        sent.is_acked = True
        if sent.end is None:
            sent.place = queue, offset
            self._store(key, queue, offset)
            self.on_ack(key, queue, offset)

    def _store(self, key: str, queue: Queue, offset: int) -> None:
        other = self._stored.setdefault((queue, offset), key)
        if other != key:
            self.find(f"{queue} at {offset} is {key}, and was {other}")

    def lose(self, queue: Queue, begin: int, end: int, at: float) -> None:
        """A broker may have lost the messages of a queue from an offset on: it had not flushed them."""
        self._lost_at[queue] = at
        ends = [end]
        ends += [offset + 1 for (place, offset) in self._stored if place == queue]
        for its in self.groups.values():
            ends += [offset + 1 for offset in its.handled.get(queue, ())]
            its.handled[queue] = {offset for offset in its.handled.get(queue, ()) if offset < begin}
        before = self._doubtful.get(queue, range(begin, begin))
        self._doubtful[queue] = range(min(begin, before.start), max(*ends, begin, before.stop))
        for sent in self.sent.values():
            if sent.place is not None and sent.place[0] == queue and sent.place[1] >= begin:
                sent.is_acked, sent.place = False, None
        for place in [place for place in self._stored if place[0] == queue and place[1] >= begin]:
            del self._stored[place]

    def is_doubtful(self, queue: Queue, offset: int) -> bool:
        """True if another message may have been at an offset before its broker lost it."""
        return offset in self._doubtful.get(queue, ())

    # -- consumers

    def begin(self, group: str, member: str, key: str, body: bytes, queue: Queue, offset: int, at: float) -> Delivery:
        """A listener got a message."""
        its, sent = self.groups[group], self.sent.get(key)
        delivery = Delivery(at, member, key, queue, offset)
        if sent is None:
            self.find(f"{group} got {key!r}, which nobody has sent")
        elif sent.body != body:
            self.find(f"{group} got {key} with another body")
        elif not sent.is_visible or sent.end is False:
            self.find(f"{group} got {key}, whose transaction is not committed")
        elif at < sent.due - 0.0015:
            self.find(f"{group} got {key} at {at:.3f}, which is due at {sent.due:.3f}")
        elif sent.end is not None:
            sent.places.add((queue, offset))
            if len(sent.places) > 1 and self.commits_once:
                self.find(f"{key} was committed more than once, it is at {sorted(sent.places)}")
        if its.orderly:
            self._store(key, queue, offset)
            other = its.running.get(queue)
            if other is not None and not self.lives_overlap:
                self.find(f"{group}: {member} got {key} of {queue} while {other.member} is at work on {other.key}")
            its.running[queue] = delivery
        its.deliveries.append(delivery)
        return delivery

    def finish(self, group: str, delivery: Delivery, at: float, *, ok: bool) -> None:
        """A listener has ended."""
        its = self.groups[group]
        delivery.ended, delivery.ok = at, ok
        if its.running.get(delivery.queue) is delivery:
            del its.running[delivery.queue]
        its.handled.setdefault(delivery.queue, set()).add(delivery.offset)
        if ok:
            its.done.add(delivery.key)
        else:
            its.failures[delivery.key] = its.failures.get(delivery.key, 0) + 1

    def member_died(self, member: str) -> None:
        """What a member was at work on it will not finish."""
        for group in self.groups.values():
            for queue in [queue for queue, running in group.running.items() if running.member == member]:
                del group.running[queue]

    # -- offsets

    def offset(self, group: str, broker: str, incarnation: int, queue: Queue, offset: int) -> None:
        """What a broker says a group has committed.

        :param incarnation: of the broker; one that was killed may have forgotten the latest.
        """
        its = self.groups[group]
        before = its.committed.get((broker, incarnation, queue), -1)
        if offset < before and not self.offsets_may_fall and not self.is_doubtful(queue, offset):
            self.find(f"the offset of {group} for {queue} fell from {before} to {offset}")
        its.committed[broker, incarnation, queue] = offset
        if not its.commits or offset == before:
            return
        handled = its.handled.get(queue, set())
        for at in range(offset):
            key = self._stored.get((queue, at))
            if key is not None and at not in handled and not self.is_doubtful(queue, at):
                self.find(f"{group} has committed {offset} for {queue}, but {key} at {at} was not consumed")
                return

    def restarted(self, name: str, before: dict[str, dict[int, int]], after: dict[str, dict[int, int]]) -> None:
        """A broker was stopped in order and started again, with these offsets."""
        for key, offsets in before.items():
            for queue_id, offset in offsets.items():
                if after.get(key, {}).get(queue_id, -1) < offset:
                    self.find(
                        f"{name} had committed {offset} for {key} {queue_id}, and forgot it in an orderly restart"
                    )

    # -- the end

    def missing(self, group: Group) -> list[str]:
        """Acknowledged messages that a group has not consumed, of those it must get."""
        return [
            key
            for key, sent in self.sent.items()
            if key not in group.done
            and (sent.end if sent.end is not None else sent.is_acked)
            and not (sent.place is not None and self.is_doubtful(*sent.place))
        ]

    def is_complete(self) -> bool:
        """True if every group has got what it must get."""
        return not any(self.missing(group) for group in self.groups.values())

    def judge(self) -> list[str]:
        """All rules that were broken."""
        for group in self.groups.values():
            missing = self.missing(group)
            if missing:
                self.find(f"{group.name} did not get {len(missing)} acknowledged messages: {', '.join(missing[:5])}")
            if group.orderly:
                self._judge_order(group)
            if self.is_calm:
                self._judge_once(group)
        return self.findings

    def _judge_order(self, group: Group) -> None:
        """No message begins before all earlier ones of its queue have been consumed, at some time."""
        known: dict[Queue, list[int]] = {}
        for queue, offset in sorted(self._stored):
            known.setdefault(queue, []).append(offset)
        consumed: dict[Queue, set[int]] = {}
        events = [(each.at, 1, each) for each in group.deliveries]
        events += [(each.ended, 0, each) for each in group.deliveries if each.ended is not None and each.ok]
        for _, begins, each in sorted(events, key=lambda event: event[:2]):
            done = consumed.setdefault(each.queue, set())
            if not begins:
                done.add(each.offset)
                continue
            for offset in known.get(each.queue, ()):
                if offset >= each.offset:
                    break
                if offset not in done:
                    key = self._stored[each.queue, offset]
                    self.find(f"{group.name} got {each.key} of {each.queue} before {key} was consumed")
                    break

    def _judge_once(self, group: Group) -> None:
        times: dict[str, int] = {}
        for each in group.deliveries:
            if each.ok:
                times[each.key] = times.get(each.key, 0) + 1
        for key in _above(times.items(), 1):
            self.find(f"{group.name} consumed {key} {times[key]} times, though nothing went wrong")


def _above(counts: Iterable[tuple[str, int]], limit: int) -> list[str]:
    return [key for key, count in counts if count > limit]
