"""``rocketmq console``: pages that show and change a cluster, in a browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options
from rocketmq_py.cli.output.failures import CommandFailure, Status
from rocketmq_py.cli.supervisor import end_of_input

if TYPE_CHECKING:
    from rocketmq_py.console.connection import Connection


@click.command(name="console", short_help="Show and change a cluster in a browser.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="H", help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port; 0 picks a free one."
)
@click.option("--read-only", is_flag=True, help="Only show: nothing can be changed.")
@click.option("--allowed-host", "hosts", multiple=True, metavar="NAME", help="Also serve under this name.")
@click.option("--insecure", is_flag=True, help="Listen on an address that other machines reach, without a login.")
@click.option("--supervised", is_flag=True, hidden=True)
@cluster_options
def command(
    host: str, port: int, read_only: bool, hosts: tuple[str, ...], insecure: bool, supervised: bool, target: Target
) -> None:
    """Serve web pages about a cluster, of this project or of Apache RocketMQ, until interrupted.

    Prints READY console=http://HOST:PORT. Needs the extra: pip install 'rocketmq-py[console]'.
    """
    try:
        from rocketmq_py.console.connection import Connection
        from rocketmq_py.console.security import check_bind
        from rocketmq_py.console.server import serve
    except ModuleNotFoundError as e:
        raise CommandFailure(f"the console needs {e.name}: pip install 'rocketmq-py[console]'", Status.USAGE) from e
    from rocketmq_py.cli.server.settings import ready
    from rocketmq_py.server.runner import run

    check_bind(host, insecure=insecure)

    def connect() -> Connection:
        return Connection(
            target.namesrv, timeout=target.timeout, address_map=target.address_map, tls=target.tls,
            credentials=target.credentials,
        )  # fmt: skip

    async def main() -> None:
        await serve(
            connect(), host=host, port=port, read_only=read_only, hosts=hosts,
            on_ready=lambda address: ready(console=address),
            until=(lambda: end_of_input(sys.stdin)) if supervised else None,
        )  # fmt: skip

    run(main())
