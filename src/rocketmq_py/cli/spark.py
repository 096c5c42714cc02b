"""``rocketmq spark``: reports about Spark streaming queries, from checkpoints and logs."""

from __future__ import annotations

from pathlib import Path

import click


@click.group("spark")
def command() -> None:
    """Reports about Spark streaming queries."""


@command.command("report")
@click.argument("source", type=click.Path(exists=True, path_type=Path), metavar="CHECKPOINT|LOG")
@click.option("--to", "target", type=click.Path(dir_okay=False, path_type=Path), default=Path("spark-report.html"),
              show_default=True, help="File for the page.")  # fmt: skip
def report(source: Path, target: Path) -> None:
    """Make an HTML page with plots of rates, lag, times and skew of streaming queries.

    CHECKPOINT is the checkpoint folder of a query. LOG is a file with Spark's progress reports: the file of a
    ProgressLog of rocketmq_py.spark, or a log of Spark at level INFO. A log contains all metrics; a checkpoint contains
    the offsets and times of the last hundred micro-batches, but no lag.
    """
    from rocketmq_py.spark.monitoring.report import page
    from rocketmq_py.spark.monitoring.report_sources import read_batches

    try:
        batches = read_batches(source)
        target.write_text(page(batches, str(source)), encoding="utf-8")
    except OSError as e:
        raise click.ClickException(str(e)) from e
    queries = len({batch.query_id for batch in batches})
    click.echo(f"{target}: {len(batches)} micro-batches of {queries} quer{'y' if queries == 1 else 'ies'}")
