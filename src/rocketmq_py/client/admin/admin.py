"""Administration of a cluster with the requests of Apache RocketMQ's tools: brokers, topics, groups, offsets, messages,
transactions, users, statistics.
"""

from __future__ import annotations

from rocketmq_py.client.admin.statistics import StatisticsAdmin


class Admin(StatisticsAdmin):
    """Manages and inspects a cluster: ``async with Admin("127.0.0.1:9876") as admin``.

    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param timeout: seconds to wait for each answer.
    :param instance: share this client's connections; its owner starts and stops it.
    :param address_map: connect elsewhere than brokers advertise: ``{"172.18.0.4:10911": "localhost:10911"}``.
    :param tls: True, TlsOptions or an ssl.SSLContext: use TLS with every server.
    :param credentials: sign requests with these, for servers with access control.
    :param skip_silent: skip brokers that do not answer, in calls that ask several brokers: their results lack these
        brokers, which later calls do not ask again; see :attr:`silent`. By default such a call raises NetworkError.

    Every method may raise NetworkError (no answer) and BrokerError (the server refused).
    """
