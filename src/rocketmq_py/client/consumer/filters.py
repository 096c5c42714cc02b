"""Subscriptions by tags or SQL expression, and checks that brokers can filter by SQL."""

from __future__ import annotations

import logging

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.core.consumer.subscription import ALL, SQL92, is_tag_type
from rocketmq_py.core.route import pick_address
from rocketmq_py.core.sql92 import compile_sql
from rocketmq_py.errors import BadHeader, BrokerError, ConfigError, NetworkError, NoRouteError, shortened
from rocketmq_py.protocol.bodies.client import CheckClientConfig, SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode, Version, version_name

_log = logging.getLogger(__name__)

_REFUSALS = (ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


def make_subscription(topic: str, tags: str | None, sql: str | None, version: int) -> SubscriptionData:
    """Make a subscription from a tag expression or, if given, an SQL expression.

    :param tags: ``"*"`` or None for all messages, or tags separated by ``||``.
    :param version: usually the current time in milliseconds; brokers keep the subscription with the greatest version.
    :raises ConfigError: both are given, or the expression is illegal.
    """
    if sql is None:
        try:
            return SubscriptionData.parse(topic, tags, version)
        except BadHeader as e:
            raise ConfigError(f"the subscription of topic {topic}: {e}") from e
    if tags not in (None, "", ALL):
        raise ConfigError(
            f"topic {topic} is to be filtered by tags ({shortened(str(tags))!r}) and by SQL ({shortened(sql)!r}): "
            "choose one; in SQL the tag of a message is the property TAGS"
        )
    unread = compile_sql(sql).unread.strip()
    if unread:
        said = shortened(sql), shortened(unread)
        _log.warning("the subscription of topic %s is %r: brokers ignore the end of it, %r", topic, *said)
    return SubscriptionData(topic=topic, sub_string=sql, sub_version=version, expression_type=SQL92)


async def check_brokers(instance: ClientInstance, group: str, subscriptions: list[SubscriptionData]) -> None:
    """Check for each subscription by SQL that one broker of its topic supports it; does nothing for tags.

    A broker that cannot be reached is logged and counts as one that does.

    :raises ConfigError: a broker does not filter by SQL, or refuses the expression.
    """
    for subscription in subscriptions:
        if is_tag_type(subscription.expression_type):
            continue
        try:
            await _check(instance, group, subscription)
        except (NetworkError, NoRouteError) as e:
            _log.warning("whether topic %s can be filtered by SQL is not known yet: %s", subscription.topic, e)


async def _check(instance: ClientInstance, group: str, subscription: SubscriptionData) -> None:
    route = await instance.routes.get(subscription.topic)
    address = pick_address(next(iter(route.brokers.values()), {}))
    if address is None:
        return
    body = CheckClientConfig(client_id=instance.client_id, group=group, subscription_data=subscription).encode()
    try:
        await instance.connections.invoke(address, RequestCode.CHECK_CLIENT_CONFIG, None, body, instance.timeout)
    except BrokerError as e:
        if e.code in _REFUSALS:
            raise ConfigError(
                f"broker {address} does not filter topic {subscription.topic} by SQL ({e.remark}): set "
                "enablePropertyFilter=true in its broker.conf, or subscribe by tags"
            ) from e
        if e.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
            raise ConfigError(f"broker {address} refuses {shortened(subscription.sub_string)!r}: {e.remark}") from e
        raise


def check_version(instance: ClientInstance, address: str, subscription: SubscriptionData) -> None:
    """Check that a broker is new enough to filter by SQL: an older one would read the expression as tags.

    :raises ConfigError: the subscription is by SQL, and the broker's heartbeat answer has a version before 4.1.0.
    """
    version = instance.broker_version(address)
    if version is not None and version < Version.V4_1_0_SNAPSHOT and not is_tag_type(subscription.expression_type):
        raise ConfigError(
            f"broker {address} is of version {version_name(version)}, and filtering topic {subscription.topic} by "
            f"{subscription.expression_type} takes 4.1.0: upgrade it, or subscribe by tags"
        )
