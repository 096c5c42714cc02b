"""``rocketmq namesrv``: run a name server without a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.server.logs import log_as, logging_options
from rocketmq_py.cli.server.settings import assigned, ready, settings_options, tls_options, without_unknown

if TYPE_CHECKING:
    from rocketmq_py.namesrv import NamesrvConfig
    from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
    from rocketmq_py.server.tls import TlsSettings


@click.command(name="namesrv")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option("--port", type=int, help="Port to listen on; 0 picks a free one.  [default: 9876]")
@settings_options("name server")
@tls_options
@logging_options
def command(
    host: str,
    port: int | None,
    config_file: Path | None,
    assignments: tuple[str, ...],
    tls_assignments: dict[str, str],
    log_level: str | None,
    log_format: str,
) -> None:
    """Run a name server until it is interrupted.

    Prints READY namesrv=HOST:PORT when it accepts connections.
    """
    from rocketmq_py.core.java_config import decode_text, split_lines
    from rocketmq_py.namesrv.config import NamesrvConfig, read_lines
    from rocketmq_py.server import tls
    from rocketmq_py.server.access import settings as access_control
    from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
    from rocketmq_py.server.runner import run

    log_as(log_level, log_format)
    settings = {"bindAddress": host, "kvConfigPath": "~/namesrv/kvConfig.json"}
    if config_file is not None:
        settings |= without_unknown(
            read_lines(split_lines(decode_text(config_file.read_bytes())[0])),
            lambda key: NamesrvConfig.is_known(key) or key in access_control.KEYS or key in tls.KEYS,
        )
        settings["configStorePath"] = str(config_file)
    settings |= assigned(assignments) | tls_assignments
    if port is not None:
        settings["listenPort"] = str(port)
    settings, tls_settings = tls.split(settings)
    settings, access_settings = access_control.split(settings)
    control = AuthDispatcher(access_settings, lambda: None, lambda _: None, "DefaultCluster")
    run(_serve(NamesrvConfig.checked(settings), tls_settings, control))


async def _serve(config: NamesrvConfig, tls: TlsSettings, access: AuthDispatcher) -> None:
    from rocketmq_py.namesrv import NameServer
    from rocketmq_py.server.runner import started

    async with started(NameServer(config, tls, access)) as nameserver:
        ready(namesrv=nameserver.address)
        await asyncio.Event().wait()
