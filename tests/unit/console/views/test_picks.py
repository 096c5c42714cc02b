"""Places of messages and queues of resets, as text and back."""

import pytest

from rocketmq_py.console.views.picks import move_of, parse_move, parse_pick, pick_of
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue


@pytest.mark.parametrize("broker", ["b", "a:b", "a:1:2"])
def test_places_are_read_as_they_are_written(broker):
    queue = MessageQueue("t", broker, 3)
    assert parse_pick("t", pick_of(broker, 3, 7)) == (queue, 7)
    assert parse_move("t", move_of(broker, 3, 5, 7)) == (queue, 5, 7)
    assert parse_move("t", move_of(broker, 3, None, 7)) == (queue, None, 7)


@pytest.mark.parametrize("text", ["", "b:1", ":1:2", "b:x:2", "b:1:x", "b:1:-2", "b:1:" + "9" * 19, "b:1:\u0663"])
def test_other_texts_are_no_places(text):
    with pytest.raises(ConfigError, match="is no place of a message"):
        parse_pick("t", text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [("b:1:2", "no queue of a reset"), (":1:2:3", "no queue of a reset"), ("b:x:2:3", "no queue of a reset"),
     ("b:1:2:x", "no queue of a reset"), ("b:1:x:3", "an old offset that is no number")],
)  # fmt: skip
def test_other_texts_are_no_queues_of_a_reset(text, fault):
    with pytest.raises(ConfigError, match=fault):
        parse_move("t", text)


def test_numbers_have_at_most_eighteen_digits():
    number = "9" * 18
    assert parse_pick("t", f"b:{number}:{number}") == (MessageQueue("t", "b", 10**18 - 1), 10**18 - 1)
    assert parse_move("t", f"b:0:{number}:{number}")[1:] == (10**18 - 1, 10**18 - 1)
    for text in (f"b:0:9{number}:1", f"b:0:1:9{number}", f"b:9{number}:1:1"):
        with pytest.raises(ConfigError):
            parse_move("t", text)
    assert (pick_of("b", 1, 2), move_of("b", 1, 0, 2), move_of("b", 1, None, 2)) == ("b:1:2", "b:1:0:2", "b:1::2")
