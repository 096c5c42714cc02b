import pytest

from rocketmq_py.core.consumer import consume_result
from rocketmq_py.core.consumer.consume_result import ACK_ALL
from rocketmq_py.model import ConsumeResult, OrderlyResult
from rocketmq_py.properties import Property

OK, LATER = ConsumeResult.SUCCESS, ConsumeResult.RECONSUME_LATER


@pytest.mark.parametrize(
    ("result", "ack_index", "done"),
    [(OK, ACK_ALL, 3), (OK, 1, 2), (OK, 0, 1), (OK, -1, 0), (OK, -9, 0), (OK, 7, 3), (LATER, ACK_ALL, 0),
     (LATER, 1, 0)],
)  # fmt: skip
def test_a_batch_is_split_behind_its_ack_index(messages, result, ack_index, done):
    batch = messages(5, 6, 7)
    assert consume_result.split_batch(result, batch, ack_index) == (batch[:done], batch[done:])


def test_none_is_success_and_other_values_are_invalid():
    assert consume_result.read_result(None) is OK
    assert consume_result.read_result(LATER) is LATER
    assert consume_result.read_result("CONSUME_SUCCESS") is None
    assert consume_result.read_result(True) is OK
    assert consume_result.read_result(1) is None
    assert consume_result.read_result(False) is None


def test_a_retry_message_counts_further_attempts(message):
    failed = message(3, b"x", b"KEYS\x01k\x02TRAN_MSG\x01true\x02UNIQ_KEY\x01U1\x02WAIT\x01false\x02", times=2)
    retry = consume_result.retry_message(failed, "g", 16)
    assert (retry.topic, retry.body, retry.flag, retry.delay_level) == ("%RETRY%g", b"x", 7, 5)
    assert retry.properties == {
        "KEYS": "k", "UNIQ_KEY": "U1", "WAIT": "false", Property.RETRY_TOPIC: "T", Property.ORIGIN_MESSAGE_ID: "U1",
        Property.RECONSUME_TIME: "3", Property.MAX_RECONSUME_TIMES: "16", Property.DELAY_LEVEL: "5",
    }  # fmt: skip


def test_a_retried_message_keeps_its_original_id(message):
    failed = message(3, b"x", b"ORIGIN_MESSAGE_ID\x01first\x02UNIQ_KEY\x01U1\x02")
    assert consume_result.retry_message(failed, "g", 16).properties[Property.ORIGIN_MESSAGE_ID] == "first"


def test_without_a_setting_there_are_16_retries():
    assert consume_result.max_reconsume_times(-1) == 16
    assert consume_result.max_reconsume_times(3) == 3


@pytest.mark.parametrize(
    ("orderly", "result"),
    [(OrderlyResult.SUCCESS, OK), (OrderlyResult.COMMIT, OK), (OrderlyResult.ROLLBACK, LATER),
     (OrderlyResult.SUSPEND, LATER)],
)  # fmt: skip
def test_the_result_of_an_orderly_listener_is_converted(orderly, result):
    assert consume_result.read_result(orderly) is result


def test_without_an_ack_index_the_whole_batch_is_done(messages):
    batch = messages(5, 6)
    assert consume_result.split_batch(OK, batch) == (batch, [])
    assert consume_result.split_batch(LATER, batch) == ([], batch)


def test_the_numbers_of_java():
    assert (consume_result.ACK_ALL, consume_result.DEFAULT_MAX_RECONSUME) == (2147483647, 16)
    assert (consume_result.FIRST_RETRY_LEVEL, consume_result.EXPIRED_DELAY_LEVEL) == (3, 3)
    assert (consume_result.RESUBMIT_DELAY, consume_result.MOST_EXPIRED) == (5.0, 16)


@pytest.mark.parametrize(("wait", "ok"), [(b"false", False), (b"true", True)])
def test_a_retry_message_waits_for_the_flush_unless_the_message_did_not(message, wait, ok):
    assert consume_result.retry_message(message(3, b"x", b"WAIT\x01" + wait + b"\x02"), "g", 16).wait_store_ok is ok


def test_properties_that_a_pull_has_added_are_not_sent_back(message):
    local = b"MIN_OFFSET\x010\x02MAX_OFFSET\x019\x02POP_CK\x01c\x02UNIQ_KEY\x01U\x02"
    sent = consume_result.retry_message(message(3, b"x", local), "g", 16).properties
    assert not sent.keys() & {"MIN_OFFSET", "MAX_OFFSET", "POP_CK", "TRAN_MSG"}
    assert sent["UNIQ_KEY"] == "U"
