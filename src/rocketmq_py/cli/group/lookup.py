"""Look up the consumer group that a command names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_py.cli.output.failures import missing

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig


async def existing_group(admin: Admin, group: str) -> dict[str, SubscriptionGroupConfig]:
    """Return the configuration of a consumer group, by broker name.

    :raises CommandFailure: no broker has the group; exit status 3.
    """
    found = (await admin.groups()).get(group)
    if found is None:
        raise missing(f"there is no consumer group {group}", "'rocketmq group ls' lists them")
    return found
