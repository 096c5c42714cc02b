"""Static topics: logical queues, each of which is a sequence of physical queues that may be on different brokers.

Conversion between logical and physical offsets, and checks of mappings (LogicQueueMappingItem, TopicQueueMappingUtils).
An item is one physical queue of a logical queue. Messages are written to the last item; the broker of that item leads
the logical queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from rocketmq_py.core.queue_limits import MAX_QUEUES
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingInfo, MappingItem
from rocketmq_py.protocol.codes import ResponseCode

MAX_ITEMS = 1_000
"""Maximum number of physical queues of one logical queue; each remapping adds one."""
_MAX_OFFSET = 1 << 62

Items = Sequence[MappingItem]


# -- offsets


def logical_offset(item: MappingItem, physical: int) -> int:
    """Convert an offset of a physical queue to the offset in its logical queue (computeStaticQueueOffsetStrictly).

    :param item: the physical queue, with its position in the logical queue.
    """
    return item.logic_offset + max(0, physical - item.start_offset)


def logical_offset_of_send(item: MappingItem, physical: int) -> int:
    """Convert the offset at which a physical queue stored a message to the logical queue's offset
    (computeStaticQueueOffsetLoosely).

    Return -1 while it is not decided at which logical offset the physical queue begins.

    :param item: the physical queue, with its position in the logical queue.
    """
    if item.logic_offset < 0:
        return -1
    if item.start_offset <= item.end_offset < physical:
        physical = item.end_offset
    return logical_offset(item, physical)


def physical_offset(item: MappingItem, logical: int) -> int:
    """Convert an offset of a logical queue to the offset in one of its physical queues.

    :param item: the physical queue, with its position in the logical queue.
    """
    return logical - item.logic_offset + item.start_offset


def end_of(item: MappingItem) -> int:
    """Return the logical offset at which an item (a physical queue of a logical queue) ends, exclusive.

    While messages may still be written to it, return the logical offset at which it begins.
    """
    if item.end_offset >= item.start_offset:
        return item.logic_offset + item.end_offset - item.start_offset
    return item.logic_offset


def has_end(item: MappingItem) -> bool:
    """Return True if a physical queue of a logical queue is not empty and gets no more messages: its end is decided."""
    return item.end_offset > item.start_offset


def find_item(items: Items, logical: int) -> MappingItem | None:
    """Return which of a logical queue's items (physical queues) contains a logical offset.

    This is the last item that begins at or before the offset, or the first item if all begin after it. Items whose
    beginning is not decided are skipped; None if no other item exists.
    """
    decided = [item for item in items if item.logic_offset >= 0]
    for item in reversed(decided):
        if logical >= item.logic_offset:
            return item
    return decided[0] if decided else None


def next_item(items: Items, current: MappingItem) -> MappingItem | None:
    """Return the item (physical queue of a logical queue) after ``current``.

    None if ``current`` is the last one, or if it is not decided at which logical offset the next one begins.
    """
    for number, item in enumerate(items[:-1]):
        if item.gen == current.gen:
            following = items[number + 1]
            return following if following.logic_offset >= 0 else None
    return None


# -- mappings


def leader_map(detail: MappingDetail) -> dict[int, int]:
    """Return the logical queues that a broker leads: physical queue id by logical queue id."""
    return {
        number: items[-1].queue_id
        for number, items in detail.hosted_queues.items()
        if items and items[-1].bname == detail.bname
    }


def as_info(detail: MappingDetail) -> MappingInfo:
    """Return the part of a broker's mapping to register with name servers: which queues it leads, without items."""
    return MappingInfo(
        topic=detail.topic, total_queues=detail.total_queues, bname=detail.bname, epoch=detail.epoch,
        curr_id_map=leader_map(detail),
    )  # fmt: skip


def mapping_fault(detail: MappingDetail, topic: str, broker_name: str) -> str | None:
    """Return why a broker must refuse a mapping; None if the mapping is valid."""
    if detail.topic != topic or detail.bname != broker_name:
        return f"the mapping is of topic {detail.topic!r} and broker {detail.bname!r}, not of {topic} and {broker_name}"
    if not 0 <= detail.total_queues <= MAX_QUEUES or len(detail.hosted_queues) > MAX_QUEUES:
        return f"a static topic has at most {MAX_QUEUES} queues"
    for number, items in detail.hosted_queues.items():
        fault = _number_fault(number, items) or items_fault(items)
        if fault is not None:
            return f"logical queue {number}: {fault}"
    return None


def _number_fault(number: int, items: Items) -> str | None:
    if not 0 <= number < MAX_QUEUES:
        return f"0 to {MAX_QUEUES - 1} is expected"
    return f"it has more than {MAX_ITEMS} physical queues" if len(items) > MAX_ITEMS else None


def items_fault(items: Items) -> str | None:
    """Return why the items of a logical queue are inconsistent; None if they are valid.

    Rules: TopicQueueMappingUtils.checkLogicQueueMappingItemOffset.
    """
    faults = [_item_fault(item) for item in items]
    faults += [_order_fault(earlier, later) for earlier, later in pairwise(items)]
    return next(filter(None, faults), None)


def _item_fault(item: MappingItem) -> str | None:
    if item.start_offset < 0 or item.gen < 0 or not 0 <= item.queue_id < MAX_QUEUES:
        return "The field is illegal, should not be negative"
    if max(item.logic_offset, item.start_offset, item.end_offset) > _MAX_OFFSET:
        return "an offset is too large"
    if item.end_offset != -1 and item.end_offset < item.start_offset:
        return "The endOffset is smaller than the start offset"
    return None


def _order_fault(earlier: MappingItem, later: MappingItem) -> str | None:
    if earlier.logic_offset < 0:
        return "The non-latest item has negative logic offset"
    if earlier.gen >= later.gen:
        return "The gen does not increase monotonically"
    if later.logic_offset != -1 and earlier.logic_offset >= later.logic_offset:
        return "The base logic offset does not increase monotonically"
    if later.logic_offset != -1 and end_of(earlier) >= later.logic_offset:
        return "The max logic offset does not increase monotonically"
    return None


def merge(old: MappingDetail, new: MappingDetail, *, force: bool) -> str | None:
    """Add to a new mapping the logical queues that only the old one has (TopicQueueMappingManager).

    Return why the new mapping is refused; None if it is accepted. A refused mapping is not changed.

    :param force: True accepts any new mapping.
    """
    if not force:
        fault = _merge_fault(old, new)
        if fault is not None:
            return fault
    for number, items in old.hosted_queues.items():
        new.hosted_queues.setdefault(number, items)
    return None


def _merge_fault(old: MappingDetail, new: MappingDetail) -> str | None:
    if new.epoch < old.epoch:
        return f"Can't accept data with small epoch {new.epoch} < {old.epoch}"
    if new.scope != old.scope:
        return f"Can't accept data with unmatched scope {new.scope} != {old.scope}"
    is_same_epoch = new.epoch == old.epoch
    for number, items in old.hosted_queues.items():
        replacement = new.hosted_queues.get(number)
        if replacement is None:
            if is_same_epoch:
                return "Cannot accept equal epoch with null data"
        else:
            fault = _replacement_fault(items, replacement, is_same_epoch=is_same_epoch)
            if fault is not None:
                return fault
    return None


def _replacement_fault(old: Items, new: Items, *, is_same_epoch: bool) -> str | None:
    """Return why the new items of a logical queue cannot replace the old ones; None if they can.

    Items with the same generation number must be equal. If both mappings have the same epoch, the last item, whose
    broker leads the queue, must stay the same.
    """
    if not old:
        return None
    if not new:
        return "The new item list is null or empty"
    by_gen = {item.gen: item for item in new}
    for item in old:
        same = by_gen.get(item.gen)
        if same is None:
            continue
        if _place(same) != _place(item) or (item.logic_offset not in (-1, same.logic_offset)):
            return f"generation {item.gen} of a logical queue cannot be changed"
    if is_same_epoch and (new[-1].gen, _place(new[-1])) != (old[-1].gen, _place(old[-1])):
        return "The new leader is different but epoch equal"
    return None


def _place(item: MappingItem) -> tuple[str, int, int]:
    return item.bname, item.queue_id, item.start_offset


# -- clean-up of mappings


def leads(detail: MappingDetail, items: Items) -> bool:
    """Return True if the broker of a mapping leads the logical queue with these items."""
    return bool(items) and items[-1].bname == detail.bname


def earliest_items(detail: MappingDetail) -> dict[int, MappingItem]:
    """Return, by logical queue id, the first items that may be removed once they hold no messages.

    These are the first items of the logical queues that this broker leads and that have a later item. Queues with a
    remapping in progress are left out, because their first item may still be written to.
    """
    return {
        number: items[0]
        for number, items in detail.hosted_queues.items()
        if len(items) > 1 and leads(detail, items) and items[1].logic_offset >= 0
    }


def without_expired(detail: MappingDetail, extents: Mapping[tuple[str, int], tuple[int, int]]) -> MappingDetail | None:
    """Return a mapping without those first items (physical queues) of logical queues that hold no messages any more.

    None if there is nothing to remove. Only the items of :func:`earliest_items` are removed.

    :param extents: min and max offset of physical queues, by broker name and queue id; an item without an entry stays.
    """
    expired = {
        number: detail.hosted_queues[number][1:]
        for number, item in earliest_items(detail).items()
        if (extent := extents.get((item.bname, item.queue_id))) is not None
        and (extent[0] == extent[1] or extent[1] == 0)
    }
    return msgspec.structs.replace(detail, hosted_queues=detail.hosted_queues | expired) if expired else None


def led_elsewhere(detail: MappingDetail) -> dict[int, str]:
    """Return the logical queues that the broker of this mapping has items of, but does not lead.

    :returns: name of the leading broker, according to this mapping, by logical queue id.
    """
    return {
        number: items[-1].bname for number, items in detail.hosted_queues.items() if items and not leads(detail, items)
    }


def outdated_queues(detail: MappingDetail, leaders: Mapping[int, str], others: Mapping[str, MappingDetail]) -> set[int]:
    """Return the ids of the logical queues that a broker may delete from its mapping, because they have moved on.

    Their leader in the route is not the one that the broker's mapping names, and the leader's own mapping confirms it.

    :param detail: this broker's mapping.
    :param leaders: leader of each logical queue, from the route.
    :param others: mappings of the leaders, by broker name.
    """
    return {
        number
        for number, believed in led_elsewhere(detail).items()
        if (leader := leaders.get(number)) is not None
        and leader != believed
        and (other := others.get(leader)) is not None
        and (other.bname, other.total_queues, other.epoch) == (leader, detail.total_queues, detail.epoch)
        and leads(other, other.hosted_queues.get(number, ()))
    }


# -- pulls


class PullOutcome(NamedTuple):
    """Response code and offsets of the response to a pull."""

    code: int
    next_offset: int
    min_offset: int
    max_offset: int


def translate_pull(items: Items, current: MappingItem, asked: int, found: PullOutcome) -> tuple[PullOutcome, int]:
    """Convert the result of a pull from a physical queue to one of the logical queue
    (PullMessageProcessor.rewriteResponseForStaticTopic).

    At the end of a physical queue, the result redirects the consumer to the next one.

    :param items: all items of the logical queue. :param current: the item that was pulled.
    :param asked: the physical offset that was pulled. :param found: the result with physical offsets.
    :returns: the result with logical offsets, and the number to add to a physical offset to get the logical one.
    """
    if found.code != ResponseCode.SUCCESS:
        current, found = _revised(items, current, asked, found)
    next_offset = min(found.next_offset, current.end_offset) if has_end(current) else found.next_offset
    translated = PullOutcome(
        found.code,
        logical_offset(current, next_offset),
        logical_offset(current, max(current.start_offset, found.min_offset)),
        max(logical_offset(current, found.max_offset), end_of(items[-1])),
    )
    return translated, current.logic_offset - current.start_offset


def _revised(items: Items, current: MappingItem, asked: int, found: PullOutcome) -> tuple[MappingItem, PullOutcome]:
    first = find_item(items, 0)
    is_first = first is not None and first.gen == current.gen
    if asked < found.min_offset:  # the messages asked for have expired
        code = ResponseCode.PULL_OFFSET_MOVED if is_first else ResponseCode.PULL_RETRY_IMMEDIATELY
        return current, found._replace(code=code, next_offset=found.min_offset)
    is_leader = items[-1].gen == current.gen
    if asked >= found.max_offset and not is_leader:
        following = next_item(items, current)
        if following is None:  # where the next queue begins is not decided yet
            return current, found._replace(code=ResponseCode.PULL_NOT_FOUND, next_offset=asked)
        start = following.start_offset
        return following, PullOutcome(ResponseCode.PULL_RETRY_IMMEDIATELY, start, start, start)
    if asked > found.max_offset and found.code == ResponseCode.PULL_OFFSET_MOVED:
        return current, found._replace(next_offset=found.max_offset)
    return current, found
