"""A form that sends one message, and its result."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from rocketmq_py.console.page import Page
from rocketmq_py.console.pages.dead import token_of
from rocketmq_py.console.security import TOKEN_FIELD, Refused, read_form
from rocketmq_py.console.state import Console
from rocketmq_py.model import Message

MOST_TEXT = 1_024


async def form(console: Console, request: Request) -> Page:
    """Show the form; an address can fill it in with ``body``, ``keys`` and ``tag``."""
    topic = request.path_params["topic"]
    await console.connection.admin().route(topic)
    given = {name: request.query_params.get(name, "") for name in ("body", "keys", "tag")}
    return Page("send.html", _data(console, request, topic, given, None))


async def send(console: Console, request: Request) -> Page:
    """Send the message of the form, to a topic that exists; returns where it is."""
    topic, fields = request.path_params["topic"], dict(await read_form(request))
    console.tokens.check(request, fields.get(TOKEN_FIELD, ""))
    given = {name: fields.get(name, "") for name in ("body", "keys", "tag")}
    keys, tag = given["keys"].split(), given["tag"].strip()
    if not given["body"]:
        raise Refused(400, "the message has no body")
    if max(len(given["keys"]), len(tag)) > MOST_TEXT:
        raise Refused(400, f"keys and tag have at most {MOST_TEXT} characters each")
    await console.connection.admin().route(topic)  # a send must not create a topic
    async with console.connection.producer() as producer:
        sent = await producer.send(Message(topic, given["body"].encode(), tag or None, keys=keys))
    place = {
        "topic": topic,
        "broker": sent.queue.broker_name,
        "queue": sent.queue.queue_id,
        "offset": sent.queue_offset,
    }
    console.audit.record(
        request, "send", topic=topic, what=sent.msg_id, result=f"{len(given['body'].encode())} bytes were sent"
    )
    console.connection.forget()
    return Page("send.html", _data(console, request, topic, given, place | {"msgId": sent.msg_id}))


def _data(
    console: Console, request: Request, topic: str, given: dict[str, str], sent: dict[str, Any] | None
) -> dict[str, Any]:
    return {"topic": topic, **given, "sent": sent, "token": token_of(console, request)}
