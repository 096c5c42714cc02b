"""Which connections are closed when all buffers together are too large."""

from dataclasses import dataclass, field

from rocketmq_py.server.buffers import Buffers

MIB = 1024 * 1024


@dataclass(eq=False)
class Holder:
    buffered: int
    ended: list[str] = field(default_factory=list)

    def cut_off(self, why: str) -> None:
        self.ended.append(why)


def test_no_connection_is_closed_up_to_the_limit() -> None:
    buffers = Buffers(3 * MIB)
    holders = [Holder(MIB) for _ in range(3)]
    for holder in holders:
        buffers.grown(holder)
    assert not any(holder.ended for holder in holders)


def test_the_connections_with_the_largest_buffers_are_closed_first() -> None:
    buffers = Buffers(5 * MIB)
    small, middle, large = holders = [Holder(MIB), Holder(3 * MIB), Holder(4 * MIB)]
    for holder in holders:
        buffers.grown(holder)
    assert (len(small.ended), len(middle.ended), len(large.ended)) == (0, 0, 1)
    assert "holds most of the 5242880 bytes" in large.ended[0]
    buffers.grown(small)
    assert (len(small.ended), len(middle.ended), len(large.ended)) == (0, 0, 1), "what is closed counts no more"
    middle.buffered = 6 * MIB
    buffers.grown(small)
    assert (len(small.ended), len(middle.ended), len(large.ended)) == (0, 1, 1)


def test_emptied_and_closed_connections_do_not_count() -> None:
    buffers = Buffers(4 * MIB)
    shrunk, gone, now = Holder(3 * MIB), Holder(3 * MIB), Holder(4 * MIB)
    buffers.grown(shrunk)
    shrunk.buffered = 10
    buffers.grown(gone)
    buffers.discard(gone)
    shrunk.buffered = 3 * MIB
    buffers.grown(now)
    assert not any(holder.ended for holder in (shrunk, gone, now))


def test_connections_with_small_buffers_do_not_count() -> None:
    buffers = Buffers(65_536)
    small, large = Holder(65_536), Holder(65_537)
    buffers.grown(small)
    buffers.grown(large)
    assert (len(small.ended), len(large.ended)) == (0, 1)
