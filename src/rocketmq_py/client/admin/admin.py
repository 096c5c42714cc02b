"""Administration of a cluster with the requests of Apache RocketMQ's tools: brokers, topics, groups, offsets, messages,
transactions, users.
"""

from __future__ import annotations

from rocketmq_py.client.admin.access import AccessAdmin


class Admin(AccessAdmin):
    """Manages a cluster and looks into it: ``async with Admin("127.0.0.1:9876") as admin``.

    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param timeout: seconds to wait for each answer.
    :param instance: share this client's connections; its owner starts and stops it.
    :param address_map: connect elsewhere than brokers advertise.
    :param tls: True, TlsOptions or an ssl.SSLContext: speak TLS with every server.
    :param credentials: sign requests, for servers with access control.
    :param skip_silent: in calls that ask several brokers, leave out brokers that do not answer, in this and later
        calls; see :attr:`silent`. By default such a call fails if one broker does not answer.

    Every method may raise NetworkError (no answer) and BrokerError (the server refused).
    """
