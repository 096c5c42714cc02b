"""``rocketmq proxy``: serve gRPC in front of a cluster."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options
from rocketmq_py.cli.server.logs import log_as, logging_options
from rocketmq_py.cli.server.monitoring_options import monitoring_options
from rocketmq_py.cli.server.settings import is_loopback, ready

if TYPE_CHECKING:
    from rocketmq_py.proxy import ProxyConfig
    from rocketmq_py.server.tls import TlsSettings

_log = logging.getLogger(__name__)

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8081
KEY_PASSWORD = "ROCKETMQ_PROXY_KEY_PASSWORD"  # noqa: S105 - the name of the variable


@click.command(name="proxy")
@click.option(
    "--listen", default=f"{DEFAULT_HOST}:{DEFAULT_PORT}", show_default=True, metavar="HOST:PORT",
    help="Address to listen on; host 0.0.0.0 for all, port 0 for a free one.",
)  # fmt: skip
@click.option(
    "--advertise", metavar="HOST:PORT",
    help="Address for clients that do not say how they reached the proxy.  [default: where they did]",
)  # fmt: skip
@click.option("--server-cert", metavar="FILE", help="Serve TLS with this certificate and its chain, PEM.")
@click.option(
    "--server-key", metavar="FILE",
    help=f"Its private key; the variable {KEY_PASSWORD} has its password.  [default: in the certificate's file]",
)  # fmt: skip
@click.option(
    "--server-tls",
    type=click.Choice(["disabled", "permissive", "enforcing"]),
    default="permissive",
    show_default=True,
    help="Whether clients may connect without TLS; a certificate is generated if none is given.",
)
@click.option(
    "--access", type=click.Choice(["open", "authenticate", "authorize"]),
    help="What calls need: nothing, the signature of a user of the cluster, or this user's permissions, too.  "
    "[default: authorize with an access key, else open]",
)  # fmt: skip
@monitoring_options
@cluster_options
@logging_options
def command(listen: str, target: Target, log_level: str | None, log_format: str, **options: Any) -> None:
    """Serve gRPC in front of a cluster, of this project or of Apache RocketMQ, until interrupted.

    Clients of RocketMQ 5 reach all its masters through this one address. Requests to the cluster are signed with the
    access key, if there is one: that of a super user. Prints READY proxy=HOST:PORT when it accepts connections.
    """
    from rocketmq_py.core.address import parse_address
    from rocketmq_py.proxy import CallNeeds, ProxyConfig
    from rocketmq_py.server.monitoring.settings import Place
    from rocketmq_py.server.runner import run
    from rocketmq_py.server.tls import TlsSettings

    log_as(log_level, log_format)
    host, port = _listening(listen)
    if options["advertise"] is not None:
        parse_address(options["advertise"])
    needs = CallNeeds(options["access"] or ("open" if target.credentials is None else "authorize"))
    if needs is CallNeeds.NOTHING and not is_loopback(host):
        _log.warning(
            "listening on %s without access control: anyone who reaches it can read and write all topics; set --access "
            "or listen on %s", host, DEFAULT_HOST,
        )  # fmt: skip
    metrics = None if options["metrics_port"] is None else Place(options["metrics_host"], options["metrics_port"])
    config = ProxyConfig(
        target.namesrv, host, port, options["advertise"], target.timeout, target.address_map, target.tls,
        target.credentials, needs, metrics,
    )  # fmt: skip
    given = {
        "mode": options["server_tls"], "certPath": options["server_cert"], "keyPath": options["server_key"],
        "keyPassword": os.environ.get(KEY_PASSWORD),
    }  # fmt: skip
    run(_serve(config, TlsSettings.of({f"tls.server.{key}": value for key, value in given.items() if value})))


def _listening(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT`` or ``HOST``.

    :raises click.UsageError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), DEFAULT_PORT
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"--listen {text}: HOST:PORT is expected, for example {DEFAULT_HOST}:{DEFAULT_PORT}")
    return host.strip("[]"), int(port)


async def _serve(config: ProxyConfig, tls: TlsSettings) -> None:
    from rocketmq_py.proxy import Proxy
    from rocketmq_py.server.garbage import LongCollections
    from rocketmq_py.server.runner import started

    async with started(Proxy(config, tls)) as proxy:
        LongCollections().start()
        ready(proxy=proxy.address)
        await asyncio.Event().wait()
