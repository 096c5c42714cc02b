"""Administration: brokers, topics, groups, offsets, messages, users, by the requests of Apache RocketMQ's tools.

Knows which brokers and name servers a request goes to. Refuses to know what they do about it.
"""

from __future__ import annotations

from rocketmq_py.client.admin.access import AccessAdmin


class Admin(AccessAdmin):
    """Manages a cluster and looks into it: ``async with Admin("127.0.0.1:9876") as admin``.

    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param timeout: seconds to wait for each answer.
    :param instance: share this client's connections; its owner starts and stops it.
    :param address_map: other addresses for those brokers advertise.
    :param tls: True, TlsOptions or an ssl.SSLContext reaches every server over TLS.
    :param credentials: what requests are signed with, for servers with access control.
    :param skip_silent: where several brokers are asked, leave out those that do not answer, and ask them no more; see
        :attr:`silent`. By default what is asked of several fails when one of them is silent.

    Every method may raise NetworkError (nobody answers) and BrokerError (the answer is no).
    """
