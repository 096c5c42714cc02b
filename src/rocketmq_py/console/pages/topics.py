"""The list of topics, and one topic."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from rocketmq_py.console.connection import each
from rocketmq_py.console.page import Page, number, paged
from rocketmq_py.console.security import Refused
from rocketmq_py.console.state import Console, or_unknown, silent_brokers
from rocketmq_py.console.views import topics as view

PAGE = 50
MOST_ON_PAGE = 200
QUEUES_ON_PAGE = 256


async def topics(console: Console, request: Request) -> Page:
    """List topics; asks for the offsets of those on the page only."""
    text = request.query_params.get("q", "")[:255]
    kind = request.query_params.get("kind", view.NORMAL)
    if kind and kind not in view.KINDS:
        raise Refused(400, f"kind={kind[:40]!r} is not one of {', '.join(view.KINDS)}")
    names, system, configs = await console.topics(), await console.system_topics(), await console.topic_configs()
    size = number(request, "size", PAGE, least=1, most=MOST_ON_PAGE)
    shown, pages = paged(view.selected(names, system, text, kind), number(request, "page", 1, least=1), size)
    admin = console.connection.admin()

    async def row(topic: str) -> dict[str, Any]:
        stats = await or_unknown(admin.topic_stats(topic))
        return view.topic_row(topic, view.kind_of(topic, system), configs.value.get(topic, {}), stats)

    rows = await each(shown, row)
    silent = silent_brokers(admin, answers=[configs])
    data = {"q": text, "kind": kind, "topics": rows, "pages": pages, "silent": silent}
    return Page("topics.html", data, "topics", view.COLUMNS)


async def topic(console: Console, request: Request) -> Page:
    """Show the queues, configurations, routes and groups of a topic."""
    name = request.path_params["topic"]
    admin = console.connection.admin()
    route = await admin.route(name)
    configs = await admin.topic_config(name)
    stats = await admin.topic_stats(name)
    groups = await or_unknown(admin.topic_groups(name))
    counted = await or_unknown(admin.counter("TOPIC_PUT_NUMS", name))
    shown, pages = paged(view.queue_rows(stats), number(request, "page", 1, least=1), QUEUES_ON_PAGE)
    data = {
        "topic": name,
        "kind": view.kind_of(name),
        "summary": view.topic_row(name, view.kind_of(name), configs, stats),
        "inPerSecond": round(sum(each.stats_minute.tps for each in counted.values()), 2) if counted else None,
        "inLastDay": sum(each.stats_day.sum for each in counted.values()) if counted else None,
        "queues": list(shown),
        "pages": pages,
        "configs": view.config_rows(configs),
        "routes": [
            {"broker": broker, "addresses": {str(number): address for number, address in sorted(addresses.items())}}
            for broker, addresses in sorted(route.brokers.items())
        ],
        "groups": groups,
        "silent": silent_brokers(admin),
    }
    return Page("topic.html", data, "queues", view.QUEUE_COLUMNS)
