"""Where dead letters came from."""

from rocketmq_py.cli.dlq import source
from tests.unit.cli.messages import message


def test_a_dead_letter_of_java_names_its_origin():
    assert source.origin_of(message(DLQ_ORIGIN_TOPIC="orders")) == "orders"
    assert source.origin_of(message()) is None
