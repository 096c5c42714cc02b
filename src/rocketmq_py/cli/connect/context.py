"""``rocketmq context``: save clusters under names and choose the current one."""

from __future__ import annotations

import click
import msgspec

from rocketmq_py.cli.connect.connect import address_map
from rocketmq_py.cli.connect.contexts import Contexts, SavedCluster, file_path, load, save
from rocketmq_py.cli.connect.security import CliSecurity, security_options
from rocketmq_py.cli.output.tables import Row, echo_record, echo_rows, output_option


@click.group(name="context")
def command() -> None:
    """Save clusters under names and choose the current one.

    A command uses the first of: --namesrv, --context, the environment variable NAMESRV_ADDR, the current context, and
    127.0.0.1:9876. The environment variable ROCKETMQ_CONTEXTS sets another file for contexts.
    """


def _name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    return [name for name in sorted(load(file_path()).contexts) if name.startswith(incomplete)]


@command.command("ls")
@output_option
def list_(output: str) -> None:
    """List saved clusters."""
    contexts = load(file_path())
    rows = [_row(contexts, name) for name in sorted(contexts.contexts)]
    echo_rows(rows, output, ("current", "name", "namesrv"))


@command.command("show")
@click.argument("name", required=False, shell_complete=_name)
@output_option
def show(name: str | None, output: str) -> None:
    """Show a saved cluster, by default the current one."""
    contexts = load(file_path())
    if name is None and contexts.current is None:
        raise click.UsageError("no context is current: choose one with 'rocketmq context use NAME'")
    echo_record(_row(contexts, name or contexts.current or ""), output)


@command.command("set")
@click.argument("name")
@click.option("--namesrv", metavar="H:P;H:P", required=True, help="Name servers of the cluster.")
@click.option("--map", "addresses", metavar="FROM=TO", multiple=True, help="Reach a broker that advertises FROM at TO.")
@click.option("--timeout", type=click.FloatRange(min=0.1), metavar="S", help="Timeout of a request in seconds.")
@security_options
@click.option("--use", "make_current", is_flag=True, help="Make it the current context.")
def set_(
    name: str,
    namesrv: str,
    addresses: tuple[str, ...],
    timeout: float | None,
    security: CliSecurity,
    make_current: bool,
) -> None:
    """Save a cluster under NAME, or change it. The first one becomes the current one."""
    from rocketmq_py.client.name_servers import name_servers

    servers = ";".join(name_servers(namesrv))
    contexts = load(file_path())
    contexts.put(
        name, SavedCluster(servers, address_map(addresses), timeout, security if security != CliSecurity() else None)
    )
    if make_current:
        contexts.use(name)
    save(contexts, file_path())
    click.echo(f"saved context {name}{' (current)' if contexts.current == name else ''}")


@command.command("use")
@click.argument("name", shell_complete=_name)
def use(name: str) -> None:
    """Make NAME the current cluster."""
    contexts = load(file_path())
    contexts.use(name)
    save(contexts, file_path())
    click.echo(f"the current context is {name}")


@command.command("delete")
@click.argument("name", shell_complete=_name)
def delete(name: str) -> None:
    """Delete the saved context NAME; the cluster itself does not change."""
    contexts = load(file_path())
    contexts.delete(name)
    save(contexts, file_path())
    click.echo(f"deleted context {name}")


def _row(contexts: Contexts, name: str) -> Row:
    cluster = contexts.get(name)
    return {
        "name": name,
        "current": contexts.current == name,
        "namesrv": cluster.namesrv,
        "addressMap": cluster.address_map,
        "timeout": cluster.timeout,
        **({"security": msgspec.to_builtins(cluster.security)} if cluster.security is not None else {}),
    }
