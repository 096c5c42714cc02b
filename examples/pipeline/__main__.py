"""``python -m examples.pipeline``: the whole way of a flight, with a check at the end that decides the exit status."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import click
import pandas as pd
from pyspark.sql import SparkSession

from examples.pipeline import report, schemas, streams
from examples.pipeline.checks import Check, checks
from examples.pipeline.flights import messages, year
from examples.pipeline.streams import CARRIER_DAYS, DEAD_LETTERS, FLIGHTS, Pipeline
from examples.server import running_server
from rocketmq_py import Admin, arrow
from rocketmq_py.spark import ProgressListener, ProgressLog, TerminalProgress, session_builder

QUERIES = 7
"""How many queries :func:`run` starts."""
_MARK = "progress.jsonl"
_NO_MASTER = {"SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"}
"""Spark Connect and ``spark-submit`` set one of these, and have a master."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--data", type=click.Path(path_type=Path), default=Path("pipeline-data"), show_default=True,
              help="Folder of tables and checkpoints; what an earlier run left there is removed.")  # fmt: skip
@click.option("--namesrv", help="A cluster that does not have the topics yet; one of its own if not given.")
@click.option("--registry", metavar="URL", help="A schema registry; the program's own schemas if not given.")
@click.option("--days", type=click.IntRange(min=5, max=365), default=365, show_default=True)
def main(data: Path, namesrv: str | None, registry: str | None, days: int) -> None:
    """Take flights through a topic into tables, and check the numbers. The exit status is 1 if one is wrong."""
    _clear(data)
    began = time.monotonic()
    old, new = schemas.old_and_new(registry)
    with ExitStack() as stack:
        if namesrv is None:
            namesrv = stack.enter_context(running_server(data / "store", data / "server.log"))
        spark = _session()
        stack.callback(spark.stop)
        figures = report.Figures()
        spark.streams.addListener(ProgressListener(TerminalProgress(), ProgressLog(data / _MARK), figures))
        flights = year(days)
        p = Pipeline(namesrv, data.absolute(), old, new)
        run(p, flights)
        figures.await_ends(QUERIES)
        found = checks(p, flights, figures.late)
    _show(data, figures, found)
    click.echo(f"{time.monotonic() - began:.0f} s")
    sys.exit(0 if all(check.holds for check in found) else 1)


def run(p: Pipeline, flights: pd.DataFrame) -> None:
    """Both deliveries of flights through all streams; dead letters are replayed in between."""
    with Admin(namesrv=p.namesrv) as admin:
        for topic in (FLIGHTS, CARRIER_DAYS, DEAD_LETTERS):
            admin.create_topic(topic, queues=4)
    for delivery, avro in ((1, p.old), (2, p.new)):
        rows = messages(flights[flights["delivery"] == delivery], avro, FLIGHTS)
        click.echo(f"delivery {delivery}: {arrow.write(rows, FLIGHTS, namesrv=p.namesrv):,} messages")
        streams.write_tables(p)
        streams.write_carrier_days(p)
        streams.write_gold(p)
        if delivery == 1:
            streams.replay(p)


def _clear(data: Path) -> None:
    """Remove what an earlier run left, and nothing else."""
    if data.exists() and any(data.iterdir()):
        if not (data / _MARK).exists():
            raise click.UsageError(f"{data} has files that are not of this program: name another folder with --data")
        shutil.rmtree(data)
    data.mkdir(parents=True, exist_ok=True)
    (data / _MARK).touch()


def _session() -> SparkSession:
    builder = session_builder("pipeline", compiled_home=True)
    if _NO_MASTER.isdisjoint(os.environ):
        builder = builder.master("local[*]")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", 2)
    builder = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
    spark: SparkSession = builder.getOrCreate()
    return spark


def _show(data: Path, figures: report.Figures, found: list[Check]) -> None:
    for line in report.lines(figures.batches):
        click.echo(line)
    report.write_page(data / _MARK, data / "report.html")
    for check in found:
        click.echo(str(check))


if __name__ == "__main__":
    main()
