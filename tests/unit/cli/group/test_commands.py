"""Groups and their members as rows."""

from rocketmq_py.cli.group import commands
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection, SubscriptionData


def test_the_consume_mode_of_members_is_shown():
    push = ConsumerConnection(consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING")
    assert commands.consumption(push) == {"type": "push", "model": "clustering"}
    assert commands.consumption(None) == {"type": None, "model": None}
    odd = ConsumerConnection(consume_type="CONSUME_SOMEHOW")
    assert commands.consumption(odd) == {"type": "CONSUME_SOMEHOW", "model": None}


def test_members_and_subscriptions_are_shown():
    found = ConsumerConnection(
        connection_set=[ConnectionInfo(client_id="c", client_addr="h:1", language="JAVA", version=513)],
        subscription_table={"t": SubscriptionData(topic="t", sub_string="a || b")},
    )
    assert commands.member_rows(found) == [
        {"clientId": "c", "address": "h:1", "language": "JAVA", "version": "V5_5_0"}
    ]  # fmt: skip
    assert commands.subscription_rows(found) == [{"topic": "t", "filter": "a || b", "filterType": "TAG"}]
    assert commands.member_rows(None) == commands.subscription_rows(None) == []
