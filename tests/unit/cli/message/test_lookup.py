"""A message by its unique id or its offset id."""

import asyncio

import click
import pytest

from rocketmq_py.cli.message.lookup import find
from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.errors import ConnectError, NotFound
from tests.unit.cli.memory_admin import MemoryAdmin
from tests.unit.cli.messages import message

FIRST, AGAIN = message(b"first", offset=0, UNIQ_KEY="ID", at=0), message(b"again", offset=1, UNIQ_KEY="ID", at=100)
KEYED = message(b"keyed", offset=2, UNIQ_KEY="X", KEYS="ID", at=200)


@pytest.fixture
def cluster():
    admin = MemoryAdmin()
    admin.add_topic("t")
    admin.add_messages(FIRST, AGAIN, KEYED)
    return admin


def found(admin, *args):
    return asyncio.run(find(admin, *args))


def test_of_a_message_that_was_sent_twice_the_oldest_is_found(cluster):
    assert found(cluster, "ID", "t") is FIRST


@pytest.mark.parametrize("topic", [None, "t"])
def test_an_offset_id_is_found_with_and_without_a_topic(cluster, topic):
    assert found(cluster, AGAIN.offset_msg_id, topic) is AGAIN


def test_a_unique_id_needs_its_topic(cluster):
    with pytest.raises(click.UsageError, match="ID is no offset message id; a unique id needs its topic: --topic NAME"):
        found(cluster, "ID", None)


def test_a_message_that_is_not_there_is_not_found(cluster):
    with pytest.raises(CommandFailure, match=r"topic t has no message NIX\. New messages are indexed after") as unknown:
        found(cluster, "NIX", "t")
    assert unknown.value.exit_code == 3
    with pytest.raises(CommandFailure, match=r"there is no message 0{32}: ") as gone:
        found(cluster, "0" * 32, None)
    assert gone.value.exit_code == 3


def test_other_errors_stay_what_they_are(cluster):
    cluster.failures["message"] = ConnectError("refused")
    with pytest.raises(ConnectError):
        found(cluster, "0" * 32, None)
    cluster.failures["message"] = NotFound(22, "nothing at this offset")
    with pytest.raises(CommandFailure, match="nothing at this offset"):
        found(cluster, "0" * 32, None)
