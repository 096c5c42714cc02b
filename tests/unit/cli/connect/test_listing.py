"""Listings that go on without silent brokers."""

import pytest

from rocketmq_py.cli.connect.connect import Target
from rocketmq_py.cli.connect.listing import listing, name_silent
from rocketmq_py.cli.output.failures import CommandFailure, Status, missing
from rocketmq_py.errors import ConnectError

TARGET = Target("h:1", "--namesrv")
SILENT = {"b": ConnectError("refused"), "a": ConnectError("lost")}


async def topics(admin):
    return await admin.topics()


def test_the_answers_of_all_brokers_are_success(admin, capsys):
    admin.add_topic("t")
    with listing(TARGET) as query:
        assert query.run(topics) == ["t"]
    assert admin.skips_silent is True
    assert capsys.readouterr().err == ""


def test_silent_brokers_are_named_in_order_and_unhealthy(admin, capsys):
    admin.unreachable = SILENT
    with pytest.raises(SystemExit) as ended, listing(TARGET) as query:
        assert query.run(topics) == []
    assert ended.value.code == Status.UNHEALTHY == 4
    assert capsys.readouterr().err == "broker a: lost\nbroker b: refused\n"


def test_silent_brokers_of_several_queries_are_collected(admin, capsys):
    with pytest.raises(SystemExit), listing(TARGET) as query:  # noqa: PT012 - listing ends it
        for broker, error in SILENT.items():
            admin.unreachable = {broker: error}
            query.run(topics)
    assert capsys.readouterr().err.count("broker ") == 2


def test_silent_brokers_are_named_even_if_the_query_fails(admin, capsys):
    admin.unreachable = SILENT
    admin.failures["topics"] = ConnectError("all are silent")
    with pytest.raises(ConnectError), listing(TARGET) as query:
        query.run(topics)
    assert "broker a: lost" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("silent", "status", "text"),
    [({}, 3, "no x"), (SILENT, 4, "no x; brokers that do not answer may have it")],
)
def test_what_a_silent_broker_may_have_is_not_missing(admin, silent, status, text):
    admin.unreachable = silent
    with pytest.raises(CommandFailure) as failed, listing(TARGET) as query:  # noqa: PT012 - listing changes it
        query.run(topics)
        raise missing("no x")
    assert (failed.value.exit_code, failed.value.message) == (status, text)


def test_other_failures_stay_what_they_are(admin):
    admin.unreachable = SILENT
    with pytest.raises(CommandFailure) as failed, listing(TARGET) as query:  # noqa: PT012 - listing sees it
        query.run(topics)
        raise CommandFailure("wrong")
    assert (failed.value.exit_code, failed.value.message) == (1, "wrong")


def test_nobody_is_named_if_everybody_answers(capsys):
    name_silent({})
    assert capsys.readouterr().err == ""
