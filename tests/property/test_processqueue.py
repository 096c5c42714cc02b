"""The process queue against a model that recomputes everything from a plain set."""

from hypothesis import given, strategies as st

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageExt, MessageQueue

HOST = bytes(8)


def message(offset: int) -> MessageExt:
    body = b"x" * (offset % 5)
    return MessageExt((0, 0, 0, 0, 0, offset, offset, 0, 0, HOST, 0, HOST, 0, 0, len(body)), "T", body, b"")


class Model:
    def __init__(self):
        self.held: set[int] = set()
        self.highest = -1

    def put(self, offsets):
        self.held |= set(offsets)
        self.highest = max([self.highest, *offsets])

    def ack(self, offsets):
        if not self.held:
            return None
        self.held -= set(offsets)
        return min(self.held) if self.held else self.highest + 1


RUNS = st.builds(lambda start, n: list(range(start, start + n)), st.integers(0, 60), st.integers(1, 12))
PULLS = st.tuples(st.just("put"), RUNS)
ACKS = st.tuples(st.just("ack"), st.lists(st.integers(0, 70), max_size=20))


@given(st.lists(PULLS | ACKS, max_size=40))
def test_the_queue_behaves_like_its_model(steps):
    real, model = ProcessQueue(MessageQueue("T", "b", 0), 0.0), Model()
    for kind, offsets in steps:
        if kind == "put":
            real.put([message(offset) for offset in offsets])
            model.put(offsets)
        else:
            assert real.ack([message(offset) for offset in offsets]) == model.ack(offsets)
        assert real.count == len(model.held)
        assert real.size == sum(offset % 5 for offset in model.held)
        assert real.min_offset == min(model.held, default=-1)
        assert real.span == (model.highest - min(model.held) if model.held else 0)


@given(st.lists(st.integers(1, 32), min_size=1, max_size=20), st.randoms())
def test_the_commit_offset_only_grows_in_any_order_of_acks(sizes, random):
    queue, offset, pulled = ProcessQueue(MessageQueue("T", "b", 0), 0.0), 0, []
    for size in sizes:
        pulled.append([message(i) for i in range(offset, offset + size)])
        queue.put(pulled[-1])
        offset += size
    random.shuffle(pulled)
    commits = [queue.ack(batch) for batch in pulled]
    assert commits == sorted(commits)
    assert commits[-1] == offset
