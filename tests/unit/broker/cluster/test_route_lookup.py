"""Queries to the name servers one after the other, and how long a route is kept."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.cluster import route_lookup as module
from rocketmq_py.broker.cluster.route_lookup import RouteCache, query_route
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectError, NoRouteError
from rocketmq_py.wire.command import Command
from tests.unit.broker.rpc import Others, reply, route

GET_ROUTE, TOPIC_NOT_EXIST = 105, 17
CONFIG = BrokerConfig(namesrv_addr="one:1;two:1")
A = {"a": {0: "a:1"}}


class Bench:
    """A cache of routes; ``answers`` are those of the name servers, by their names, ``now`` is the time in ms."""

    def __init__(self, **answers: Reply | Exception) -> None:
        self.now = 1_000
        self.answers = answers
        self.others = Others(self._answer)
        self.cache = RouteCache(CONFIG, self.others, lambda: self.now)

    def _answer(self, address: str, command: Command) -> Reply | Exception:
        assert command.ext["topic"] in ("t", "u")
        return self.answers.get(address.partition(":")[0], ConnectError(f"cannot connect to {address}"))


async def test_the_next_name_server_is_asked_if_one_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(two=route(A, 3))
    found = await query_route(CONFIG, bench.others, "t")
    assert found is not None
    assert found.brokers == A
    assert len(found.write_queues) == 3
    assert [(asked.address, asked.command.code, asked.timeout) for asked in bench.others.asked] == [
        ("one:1", GET_ROUTE, 3.0), ("two:1", GET_ROUTE, 3.0),
    ]  # fmt: skip
    assert "name server one:1 did not return the route of topic t: cannot connect to one:1" in caplog.text
    assert len(caplog.records) == 1


async def test_the_first_answer_counts() -> None:
    bench = Bench(one=route(A), two=route({}))
    found = await query_route(CONFIG, bench.others, "t")
    assert found is not None
    assert found.brokers == A
    assert len(bench.others.asked) == 1


async def test_a_topic_that_does_not_exist_has_no_queues() -> None:
    bench = Bench(one=reply(TOPIC_NOT_EXIST, remark="No topic route info"), two=route(A))
    found = await query_route(CONFIG, bench.others, "t")
    assert found is not None
    assert (found.topic, found.brokers, found.write_queues, found.read_queues) == ("t", {}, [], [])
    assert len(bench.others.asked) == 1


@pytest.mark.parametrize("bad", [reply(1, remark="no"), reply(body=b"[]")])
async def test_a_refusal_or_a_malformed_body_is_no_answer(bad: Reply) -> None:
    found = await query_route(CONFIG, Bench(one=bad, two=route(A)).others, "t")
    assert found is not None
    assert found.brokers == A


async def test_without_an_answer_there_is_no_route() -> None:
    bench = Bench()
    assert await query_route(CONFIG, bench.others, "t") is None
    with pytest.raises(NoRouteError, match="no name server returned a route of topic t"):
        await bench.cache.get("t")
    assert len(bench.others.asked) == 4
    bench.answers["one"] = route(A)
    assert (await bench.cache.get("t")).brokers == A, "a failure is not kept"


@pytest.mark.parametrize(("passed", "asked"), [(0, 1), (4_999, 1), (5_000, 2)])
async def test_a_route_is_kept_for_five_seconds(passed: int, asked: int) -> None:
    bench = Bench(one=route(A))
    await bench.cache.get("t")
    bench.now += passed
    assert (await bench.cache.get("t")).brokers == A
    assert len(bench.others.asked) == asked
    await bench.cache.get("t")
    assert len(bench.others.asked) == asked


@pytest.mark.parametrize(("max_age", "asked"), [(10_001, 1), (10_000, 2)])
async def test_a_route_may_be_wanted_younger_or_older(max_age: int, asked: int) -> None:
    bench = Bench(one=route(A))
    await bench.cache.get("t")
    bench.now += 10_000
    await bench.cache.get("t", max_age_ms=max_age)
    assert len(bench.others.asked) == asked


async def test_a_route_that_is_removed_is_queried_again_others_are_kept() -> None:
    bench = Bench(one=route(A))
    for topic in ("t", "u"):
        await bench.cache.get(topic)
    bench.cache.remove("t")
    bench.cache.remove("t")
    for topic in ("u", "t", "t"):
        await bench.cache.get(topic)
    assert [asked.command.ext["topic"] for asked in bench.others.asked] == ["t", "u", "t"]


async def test_old_routes_are_forgotten_when_many_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_KNOWN", 1)
    bench = Bench(one=route(A))
    await bench.cache.get("t")
    bench.now += 4_999
    await bench.cache.get("u")
    assert list(bench.cache._known) == ["t", "u"], "both still count"
    bench.now += 1
    await bench.cache.get("u", max_age_ms=0)
    assert list(bench.cache._known) == ["u"]
