"""Queue options."""

import click
import pytest

from rocketmq_py.cli.queues import parse_queues


def test_queue_options_are_parsed():
    assert parse_queues(("broker-a:0", "b:c:12")) == {("broker-a", 0), ("b:c", 12)}
    for text in ("broker-a", ":1", "a:x"):
        with pytest.raises(click.BadParameter, match="is no queue BROKER:N"):
            parse_queues((text,))
