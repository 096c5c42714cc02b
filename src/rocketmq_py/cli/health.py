"""``rocketmq health``: ask a server whether it lives or is ready, for containers without curl."""

from __future__ import annotations

import http.client

import click

from rocketmq_py.cli.output.failures import CommandFailure, Status

_PAGES = {"live": "/livez", "ready": "/readyz", "started": "/startupz"}
_MOST_BYTES = 64 * 1024


@click.command(name="health", short_help="Ask a server whether it lives or is ready.")
@click.argument("state", type=click.Choice(tuple(_PAGES)), default="ready")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="H", help="Where the server's health is served."
)
@click.option("--port", type=click.IntRange(1, 65535), default=5557, show_default=True, help="The port of its health.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=5.0, show_default=True, metavar="S",
    help="Seconds to wait for the answer.",
)  # fmt: skip
def command(state: str, host: str, port: int, timeout: float) -> None:
    """Ask a broker, a name server or a console whether it is ready, or lives, or has started.

    It prints the checks and ends with status 0 if they pass, 4 if one fails, 1 if nobody answers. The server serves its
    health with metricsExporterType=PROM or healthPort; a console with --metrics-port.
    """
    status, text = _ask(host, port, _PAGES[state], timeout)
    if status not in (200, 503):
        raise CommandFailure(f"{host}:{port} answers with status {status}: this is no port of health")
    click.echo(text, nl=False)
    if status != 200:
        raise click.exceptions.Exit(Status.UNHEALTHY)


def _ask(host: str, port: int, path: str, timeout: float) -> tuple[int, str]:
    """Return status and text of a page.

    :raises CommandFailure: nobody answers, or not with HTTP.
    """
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", f"{path}?verbose")
        answer = connection.getresponse()
        return answer.status, answer.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, http.client.HTTPException) as e:
        raise CommandFailure(f"no health at {host}:{port}: {str(e) or type(e).__name__}") from e
    finally:
        connection.close()
