"""Dead letters become ordinary messages again."""

from rocketmq_py.cli.dlq import resend, source
from tests.unit.cli.messages import message


def test_a_dead_letter_is_revived_as_it_was():
    dead = message(
        b"b", topic="%DLQ%g", TAGS="a", KEYS="k", UNIQ_KEY="ID", RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="X", DELAY="0",
        mine="1", __SHARDINGKEY="s",
    )  # fmt: skip
    assert source.origin_of(dead) == "orders"
    again = resend.message_to_resend(dead, "g", resend.TOPIC)
    assert (again.topic, again.body, again.flag, again.sharding_key) == ("orders", b"b", 7, "s")
    assert again.properties == {
        "TAGS": "a", "KEYS": "k", "UNIQ_KEY": "ID", "mine": "1", "__SHARDINGKEY": "s", "WAIT": "true"
    }  # fmt: skip
    alone = resend.message_to_resend(dead, "g", resend.GROUP)
    assert (alone.topic, alone.properties["RETRY_TOPIC"]) == ("%RETRY%g", "orders")
