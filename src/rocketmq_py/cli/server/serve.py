"""``rocketmq serve``: run a name server and a broker in one process, or a broker for existing name servers."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from rocketmq_py.cli.connect.security import ACCESS_VARIABLE
from rocketmq_py.cli.server.broker_plan import (
    PlannedBroker,
    broker_count,
    check_left_out,
    check_settings,
    plan,
)
from rocketmq_py.cli.server.logs import log_as, logging_options
from rocketmq_py.cli.server.settings import (
    assigned,
    drain_option,
    is_loopback,
    ready,
    settings_options,
    tls_options,
    without_unknown,
)
from rocketmq_py.cli.supervisor import ChildProcess, end_of_input, python_command, running

if TYPE_CHECKING:
    from rocketmq_py.broker import BrokerConfig
    from rocketmq_py.broker.metadata.access_store import FollowedAccess
    from rocketmq_py.namesrv import NamesrvConfig
    from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
    from rocketmq_py.server.access.settings import AccessSettings
    from rocketmq_py.server.tls import TlsSettings
    from rocketmq_py.store import StoreConfig

_log = logging.getLogger(__name__)

ANY = ("0.0.0.0", "::")  # noqa: S104
LOOPBACK = "127.0.0.1"
ROLES = ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE")


@click.command(name="serve", short_help="Run a broker, by default with a name server.")
@click.option("--store", metavar="DIR", help="Directory of the messages.  [default: ~/store]")
@click.option(
    "--host", metavar="H", help="Address or name to listen on and to announce to clients.  [default: 127.0.0.1]"
)
@click.option("--advertise", metavar="H", help="Address or name to announce to clients instead of --host.")
@click.option("--namesrv-port", type=int, default=9876, show_default=True, help="Port of the name server.")
@click.option("--port", type=int, help="Port of the broker.  [default: 10911]")
@click.option("--name", metavar="NAME", help="Name of the broker.  [default: broker-a]")
@click.option("--cluster", metavar="NAME", help="Name of the cluster.  [default: DefaultCluster]")
@click.option("--namesrv", metavar="H:P;H:P", help="Join these name servers instead of running one.")
@click.option(
    "--role", type=click.Choice(ROLES), help="Role among the brokers of the same name.  [default: ASYNC_MASTER]"
)
@click.option("--id", type=int, metavar="N", help="Number of a SLAVE, 1 or more.")
@click.option(
    "--accept-loss",
    flag_value="true",
    help="Start although files of the commit log, or parts of them, are missing.",
)
@click.option(
    "--brokers",
    metavar="N|auto",
    default="1",
    show_default=True,
    help="Masters to run, a process each; auto for one per core.",
)
@click.option(
    "--console",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    is_flag=False,
    flag_value=8080,
    help="Also run the web console, as a process on 127.0.0.1; without PORT on 8080.",
)
@click.option("--supervised", is_flag=True, hidden=True)
@settings_options("broker")
@drain_option
@tls_options
@logging_options
def command(
    namesrv_port: int,
    brokers: str,
    supervised: bool,
    config_file: Path | None,
    assignments: tuple[str, ...],
    drain_assignments: dict[str, str],
    tls_assignments: dict[str, str],
    log_level: str | None,
    log_format: str,
    **options: str | int | None,
) -> None:
    """Run a broker, and a name server unless --namesrv names others, until it is interrupted.

    Prints READY namesrv=HOST:PORT broker=HOST:PORT when both accept connections. A port of 0 picks a free one. Options
    override --set, which overrides the file; a broker.conf of Apache RocketMQ works unchanged.

    With --brokers N, masters broker-a, broker-b ... of one cluster run as processes of their own, on ports 10 apart.
    The first one has DIR, the others have DIR/broker-b and so on. One that ends is started again.

    \b
    Common settings for --set and the file, with their defaults:
      autoCreateTopicEnable=true           a send creates its topic
      defaultTopicQueueNums=8              maximum queues of such a topic
      autoCreateSubscriptionGroup=true     a consumer creates its group
      flushDiskType=ASYNC_FLUSH            SYNC_FLUSH: reply after the flush
      fileReservedTime=72                  hours messages are kept
      deleteWhen=04                        the hours in which files are removed
      diskMaxUsedSpaceRatio=75             percent; above it, delete at any hour
      maxMessageSize=4194304               bytes
      messageDelayLevel='1s 5s 10s ...'    the delay levels
      enablePropertyFilter=false           SQL filters
      brokerPermission=6                   4 read, 2 write
    """
    from rocketmq_py.broker.metadata.access_store import FollowedAccess, open_access
    from rocketmq_py.server import tls
    from rocketmq_py.server.access import settings as access_control
    from rocketmq_py.server.runner import run, speedups
    from rocketmq_py.store.tools.offline import has_messages

    log_as(log_level, log_format, str(options["name"]) if supervised else "")
    _log.info("%s", speedups())
    given = assigned(assignments) | drain_assignments | tls_assignments | _as_settings(options)
    count = broker_count(brokers)
    settings = without_unknown(_from_file(config_file, given, shared=supervised or count > 1), _is_known) | given
    addresses = _addresses(settings, options["host"], options["advertise"])
    settings |= addresses
    if count > 1:
        check_settings(settings)
    settings, tls_settings = tls.split(settings)
    settings, access_settings = access_control.split(settings)
    namesrv, broker, store = _configure(settings, namesrv_port)
    if options["id"] and not broker.is_slave:
        raise click.UsageError(
            f"--id {options['id']} is the number of a slave: add --role SLAVE; a master has the number 0"
        )
    _check(access_settings, broker, namesrv)
    console = (
        None if options["console"] is None else ConsolePlan.of(int(options["console"]), tls_settings, access_settings)
    )
    if namesrv is not None:
        tls_settings.check_talks_to_itself()
    first = PlannedBroker(
        broker.broker_name, broker.store_root, broker.listen_port, broker.ha_listen_port,
        broker.metrics_prom_exporter_port, broker.health_port, broker.grpc_server_port,
    )  # fmt: skip
    if not supervised:
        check_left_out(first, count, has_messages)
    if count > 1:
        followed = FollowedAccess(access_settings, broker.store_root, broker.broker_cluster_name)
        child = _child_command(config_file, given | addresses, log_format)
        run(_supervise(namesrv, broker.namesrv_addr, plan(count, first), child, tls_settings, followed, console))
    else:
        control = open_access(access_settings, broker.store_root, broker.broker_cluster_name)
        run(_serve(namesrv, broker, store, tls_settings, control, supervised=supervised, console=console))


def _check(access: AccessSettings, broker: BrokerConfig, namesrv: NamesrvConfig | None) -> None:
    """Refuse contradictory settings, and log a warning about a broker that is reachable without access control.

    :raises ConfigError: the broker could not register at its own name server, or would never find its master.
    """
    from rocketmq_py.errors import ConfigError

    if broker.is_slave and namesrv is not None:
        raise ConfigError("a SLAVE finds its master through their common name servers: name them with --namesrv")
    if access.authentication_enabled:
        if namesrv is not None and access.inner is None:
            raise ConfigError(
                "authenticationEnabled holds for the name server, too, so the broker needs credentials of its own: set "
                'innerClientAuthenticationCredentials={"accessKey": "...", "secretKey": "..."}'
            )
    elif not is_loopback(broker.bind_address):
        _log.warning(
            "listening on %s without access control: anyone who reaches it can read, write and change everything; set "
            "authenticationEnabled and authorizationEnabled, or listen on %s",
            broker.bind_address, LOOPBACK,
        )  # fmt: skip


def _from_file(config_file: Path | None, given: dict[str, str], *, shared: bool) -> dict[str, str]:
    """Return the settings of ``config_file``, or, without one, of the file in the store directory.

    Changes by administrators are written to the file that was read.

    :param given: settings from the command line, which may name the store directory.
    :param shared: several brokers read ``config_file``: it is not written; each broker writes changes to the file in
        its store, whose settings override those of ``config_file``.
    """
    from rocketmq_py.broker.config.broker_config import DEFAULT_STORE
    from rocketmq_py.broker.config.live_settings import kept_in

    root = Path(given.get("storePathRootDir", DEFAULT_STORE)).expanduser()
    kept = kept_in(given.get("brokerConfigPath", ""), root)
    if config_file is None:
        return _read(kept)
    settings = _read(config_file)
    return settings | _read(kept) if shared else {"brokerConfigPath": str(config_file), **settings}


def _read(path: Path) -> dict[str, str]:
    """Return the settings in a file; empty if there is no file."""
    from rocketmq_py.core.java_config import decode_text, read_properties, split_lines

    return read_properties(split_lines(decode_text(path.read_bytes())[0])) if path.exists() else {}


def _as_settings(options: dict[str, str | int | None]) -> dict[str, str]:
    """Return the options that were given on the command line as broker settings, by Java's keys."""
    keys = {"store": "storePathRootDir", "port": "listenPort", "name": "brokerName", "cluster": "brokerClusterName",
            "namesrv": "namesrvAddr", "role": "brokerRole", "id": "brokerId", "accept_loss": "acceptLoss"}  # fmt: skip
    return {key: str(options[option]) for option, key in keys.items() if options[option] is not None}


def _is_known(key: str) -> bool:
    """Return True if a broker or name server, of Apache RocketMQ or of this project, has a setting of that name."""
    from rocketmq_py.broker.config import broker_config
    from rocketmq_py.namesrv.config import NamesrvConfig
    from rocketmq_py.server import tls
    from rocketmq_py.server.access import settings as access_control

    return broker_config.is_known(key) or NamesrvConfig.is_known(key) or key in access_control.KEYS or key in tls.KEYS


def _addresses(settings: dict[str, str], host: str | int | None, advertised: str | int | None = None) -> dict[str, str]:
    """Return settings for the address to listen on and the address to announce to clients.

    If only one of them is set, the other follows from it: the address to listen on is announced (this machine's address
    if it is all interfaces), or the broker listens on all interfaces. If none is set, both are the loopback address.

    :param host: option ``--host``, which overrides both settings.
    :param advertised: option ``--advertise``, which overrides the address to announce.
    """
    announced = settings.get("brokerIP1")
    bind = str(host) if host else settings.get("bindAddress") or (ANY[0] if announced else LOOPBACK)
    if host or not announced:
        announced = _own_address() if bind in ANY else bind
    return {"bindAddress": bind, "brokerIP1": str(advertised or announced)}


def _own_address() -> str:
    from rocketmq_py.client.client_instance import local_ip

    return local_ip()


def _configure(settings: dict[str, str], namesrv_port: int) -> tuple[NamesrvConfig | None, BrokerConfig, StoreConfig]:
    """Return the configurations of name server (None if the broker joins existing ones), broker and store."""
    from rocketmq_py.broker.config.broker_config import configure
    from rocketmq_py.namesrv.config import NamesrvConfig

    namesrv_settings = {key: value for key, value in settings.items() if key in _namesrv_keys()}
    broker, store = configure({key: value for key, value in settings.items() if key not in namesrv_settings})
    if broker.namesrv_addr:
        return None, broker, store
    kv_config_path = broker.store_root / "namesrv" / "kvConfig.json"
    namesrv = NamesrvConfig(
        listen_port=namesrv_port, bind_address=broker.bind_address, kv_config_path=str(kv_config_path)
    )
    return namesrv.updated(namesrv_settings), broker, store


def _namesrv_keys() -> frozenset[str]:
    """Return the keys of settings that a name server has and a broker does not have."""
    from rocketmq_py.broker.config.broker_config import own_keys
    from rocketmq_py.broker.config.java_keys import JAVA_DEFAULTS as BROKER_DEFAULTS
    from rocketmq_py.namesrv.config import NamesrvConfig
    from rocketmq_py.namesrv.java_keys import JAVA_DEFAULTS

    keys = (JAVA_DEFAULTS.keys() - BROKER_DEFAULTS.keys()) | NamesrvConfig.keys()
    return frozenset(keys - own_keys().keys())


async def _serve(
    namesrv: NamesrvConfig | None,
    broker: BrokerConfig,
    store: StoreConfig,
    tls: TlsSettings,
    access: AuthDispatcher,
    *,
    supervised: bool,
    console: ConsolePlan | None = None,
) -> None:
    from rocketmq_py.broker import Broker
    from rocketmq_py.namesrv import NameServer
    from rocketmq_py.server.garbage import LongCollections, paused
    from rocketmq_py.server.runner import started

    async with AsyncExitStack() as stack:
        with paused(), ExitStack() as starting:
            if namesrv is not None:
                nameserver = await stack.enter_async_context(started(NameServer(namesrv, tls, access)))
                broker = msgspec.structs.replace(broker, namesrv_addr=nameserver.address)
                starting.enter_context(nameserver.unwatched())
            serving = await stack.enter_async_context(started(Broker(broker, store, tls=tls, access=access)))
        shown = await stack.enter_async_context(_console(console, broker.namesrv_addr))
        LongCollections().start()
        ready(namesrv=broker.namesrv_addr, broker=serving.address, **shown)
        await (end_of_input(sys.stdin) if supervised else asyncio.Event().wait())


class ConsolePlan(NamedTuple):
    """A console beside a broker: its port, and further words of its command line."""

    port: int
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, port: int, tls: TlsSettings, access: AccessSettings) -> ConsolePlan:
        """Return the console that belongs to a broker's settings.

        It has the broker's certificate, talks to servers as the broker does, and asks for an access key if the broker
        does, unless the environment has one.
        """
        words = ["--https-cert", tls.server_cert_path] if tls.server_cert_path and tls.serves_tls else []
        if words and tls.server_key_path:
            words += ["--https-key", tls.server_key_path]
        if words and tls.server_key_password:
            os.environ["ROCKETMQ_CONSOLE_KEY_PASSWORD"] = tls.server_key_password  # a command line can be seen
        if tls.speaks_tls:
            words += ["--tls"] if tls.client_auth_server else ["--tls-insecure"]
            files = {"--tls-ca": tls.client_trust_cert_path, "--tls-cert": tls.client_cert_path,
                     "--tls-key": tls.client_key_path}  # fmt: skip
            words += [word for option, file in files.items() if file for word in (option, file)]
        if access.authentication_enabled and not os.environ.get(ACCESS_VARIABLE):
            words.append("--login")
        return cls(port, tuple(words))


@asynccontextmanager
async def _console(plan: ConsolePlan | None, namesrv: str) -> AsyncIterator[dict[str, str]]:
    """Run the console as a child process; yields its address for the READY line. A restart uses the same port.

    :param plan: None for no console.
    """
    if plan is None:
        yield {}
        return
    address: dict[str, str] = {}

    def command() -> list[str]:
        bound = address["console"].rpartition(":")[2] if address else str(plan.port)
        return [*python_command(), "console", "--supervised", "--port", bound, "--namesrv", namesrv, *plan.words]

    def note(ready_line: str) -> None:
        address["console"] = ready_line.split("console=")[1].strip()

    async with running([ChildProcess("console", command, note)]):
        yield address


# -- several brokers


def _child_command(config_file: Path | None, given: dict[str, str], log_format: str) -> list[str]:
    """Return the part of the child processes' command line that is the same for all brokers."""
    command = [*python_command(), "serve", "--supervised", "--log-format", log_format]
    command += ["--log-level", logging.getLevelName(logging.getLogger().level).lower()]
    if config_file is not None:
        command += ["-c", str(config_file)]
    own = {
        "storePathRootDir", "listenPort", "haListenPort", "brokerName", "namesrvAddr", "metricsPromExporterPort",
        "healthPort",
    }  # fmt: skip
    for key, value in given.items():
        if key not in own:
            command += ["--set", f"{key}={value}"]
    return command


class Child:
    """A broker that runs as a child process; restarts use the port that the first start got.

    :param command: the part of the command line that is the same for all brokers.
    :param namesrv: addresses of the name servers at which it registers.
    :ivar address: ``host:port`` of the broker; empty before its first start.
    """

    def __init__(self, planned: PlannedBroker, command: list[str], namesrv: str) -> None:
        self.address = ""
        self.process = ChildProcess(planned.name, self._full_command, self._note_address)
        self._planned = planned
        self._command = command
        self._namesrv = namesrv

    def _full_command(self) -> list[str]:
        planned = self._planned
        return [
            *self._command, "--name", planned.name, "--store", str(planned.store), "--port", str(planned.port),
            "--set", f"haListenPort={planned.ha_port}", "--set", f"metricsPromExporterPort={planned.metrics_port}",
            "--set", f"healthPort={planned.health_port}", "--set", f"grpcServerPort={planned.grpc_port}",
            "--namesrv", self._namesrv,
        ]  # fmt: skip

    def _note_address(self, ready_line: str) -> None:
        self.address = ready_line.split("broker=")[1].strip()
        self._planned = self._planned._replace(port=int(self.address.rpartition(":")[2]))


async def _supervise(
    namesrv: NamesrvConfig | None,
    others: str,
    brokers: list[PlannedBroker],
    command: list[str],
    tls: TlsSettings,
    access: FollowedAccess,
    console: ConsolePlan | None = None,
) -> None:
    """Run brokers as child processes, and a name server in this process if ``namesrv`` is given.

    :param others: addresses of existing name servers, if ``namesrv`` is None.
    :param command: the part of the command line that is the same for all brokers.
    """
    from rocketmq_py.broker.metadata.sibling_tables import copy_tables
    from rocketmq_py.namesrv import NameServer
    from rocketmq_py.server.garbage import LongCollections
    from rocketmq_py.server.runner import started

    for sibling in brokers[1:]:
        copy_tables(brokers[0].store, sibling.store, brokers[0].name)
    async with AsyncExitStack() as stack:
        if namesrv is not None:
            nameserver = await stack.enter_async_context(started(NameServer(namesrv, tls, access)))
            others = nameserver.address

        children = [Child(planned, command, others) for planned in brokers]
        await stack.enter_async_context(running([child.process for child in children]))
        shown = await stack.enter_async_context(_console(console, others))
        LongCollections().start()
        ready(namesrv=others, broker=";".join(child.address for child in children), **shown)
        await asyncio.Event().wait()
