"""Look up a message by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.output.failures import missing

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageExt


async def find(admin: Admin, msg_id: str, topic: str | None) -> MessageExt:
    """Return the message with an id.

    :param msg_id: unique id of a message in ``topic``, or an offset message id.
    :param topic: topic of the message; may be None for an offset message id.
    :raises click.UsageError: the id is no offset message id and there is no topic.
    :raises CommandFailure: there is no such message; exit status 3.
    """
    from rocketmq_py.errors import BrokerError, ConfigError

    if topic is not None:
        found = await admin.messages_by_key(topic, msg_id, unique=True)
        if found:
            return found[0]
    try:
        return await admin.message(msg_id)
    except ConfigError as e:
        if topic is None:
            raise click.UsageError(f"{e}; a unique id needs its topic: --topic NAME") from e
        hint = "New messages are indexed after a moment"
        raise missing(f"topic {topic} has no message {msg_id}", hint) from e
    except BrokerError as e:
        raise missing(f"there is no message {msg_id}: {e}") from e
