"""The report of streaming queries: a self-contained HTML page with figures and plots.

No IO. Module ``report_sources`` reads the micro-batches, ``report_plots`` draws the plots.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.monitoring.progress import TOTAL, BatchProgress
from rocketmq_py.spark.monitoring.report_plots import bar_plot, line_plot, short, stacked_plot
from rocketmq_py.spark.monitoring.terminal import duration

_STYLE = """
:root{color-scheme:light dark;--ink:#0f172a;--soft:#64748b;--line:#e2e8f0;--paper:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e2e8f0;--soft:#94a3b8;--line:#334155;--paper:#0f172a}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:900px;margin:2em auto;
padding:0 1em}
h1{font-size:1.5em;margin:0}h2{font-size:1.2em;margin:2em 0 .3em}p{color:var(--soft);margin:.2em 0 1em}
svg{width:100%;height:auto;display:block;margin:1em 0}svg text{font:12px system-ui,sans-serif;fill:var(--soft)}
svg .title{font-size:13px;font-weight:600;fill:var(--ink)}
.cards{display:flex;flex-wrap:wrap;gap:.7em;margin:1em 0}
.cards div{border:1px solid var(--line);border-radius:8px;padding:.5em .9em}
.cards b{display:block;font-size:1.25em}.cards span{color:var(--soft);font-size:.85em}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.25em .6em;text-align:right;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600}th:nth-child(2),td:nth-child(2){text-align:left}td:first-child{color:var(--soft)}
"""
_PHASES = ("latestOffset", "queryPlanning", "getBatch", "addBatch", "walCommit", "commitOffsets")
"""Phases of a trigger that get a colour of their own, in the order they run; all others are combined as "other"."""


class QueueTotal(NamedTuple):
    """A queue over all micro-batches: number of offsets read, and the last lag (None if Spark did not report it)."""

    queue: MessageQueue
    messages: int
    lag: int | None


def totals(batches: Iterable[BatchProgress]) -> list[QueueTotal]:
    """Return the total of each queue over the micro-batches, sorted by queue."""
    messages: dict[MessageQueue, int] = defaultdict(int)
    lag: dict[MessageQueue, int | None] = {}
    for batch in batches:
        for queue, number, behind in batch.queues:
            messages[queue] += number
            lag[queue] = behind
    return [QueueTotal(queue, messages[queue], lag[queue]) for queue in sorted(messages)]


def page(batches: Sequence[BatchProgress], source: str) -> str:
    """Return the HTML page.

    :param batches: the micro-batches, at least one, of any number of queries.
    :param source: name of the log or checkpoint they come from, for title and heading.
    """
    queries: dict[str, list[BatchProgress]] = defaultdict(list)
    for batch in batches:
        queries[batch.query_id].append(batch)
    sections = "".join(_query(sorted(of_one, key=lambda batch: batch.at)) for of_one in queries.values())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Streaming queries: {escape(source)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>Streaming queries</h1><p>{escape(source)}, times in UTC</p>{sections}</body></html>\n"
    )


def _query(batches: list[BatchProgress]) -> str:
    first, last = batches[0], batches[-1]
    span = f"{_time(first.at)} to {_time(last.at + last.seconds)}"
    parts = [
        f"<h2>{escape(last.query)}</h2>",
        f"<p>{escape(last.query_id)}, micro-batches {first.batch_id} to {last.batch_id}, {span}</p>",
        _cards(batches),
        _rates(batches),
        _lags(batches),
        _times(batches),
        _shares(totals(batches)),
        _unplaced(batches),
        _table(totals(batches)),
    ]
    return "".join(parts)


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def _cards(batches: list[BatchProgress]) -> str:
    rows = sum(batch.rows for batch in batches)
    busy = sum(batch.seconds for batch in batches)
    times = [batch.seconds for batch in batches]
    lag = batches[-1].lag
    cards = [
        (f"{rows:,}", "rows"),
        (f"{len(batches):,}", "micro-batches"),
        (f"{rows / busy:,.0f}" if busy else "–", "rows/s while busy"),
        (_seconds(statistics.median(times)), "a micro-batch, median"),
        (_seconds(max(times)), "the longest"),
        (f"{sum(lag.values()):,}" if lag else "–", "lag at the end"),
    ]
    return '<div class="cards">' + "".join(f"<div><b>{b}</b><span>{s}</span></div>" for b, s in cards) + "</div>"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def _rates(batches: list[BatchProgress]) -> str:
    return line_plot(
        "Rows", "per second",
        {
            "coming in": [(batch.at, batch.input_rate) for batch in batches],
            "processed": [(batch.at, batch.processed_rate) for batch in batches],
        },
    )  # fmt: skip


def _lags(batches: list[BatchProgress]) -> str:
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for batch in batches:
        for topic, behind in batch.lag.items():
            lines[topic].append((batch.at, float(behind)))
    return line_plot("Lag by topic", "messages behind the micro-batch", lines)


def _times(batches: list[BatchProgress]) -> str:
    """Plot the milliseconds of each phase, stacked; only the total if the micro-batches come from a checkpoint."""
    known = [phase for phase in _PHASES if any(phase in batch.durations for batch in batches)]
    layers = {phase: [batch.durations.get(phase, 0.0) * 1000 for batch in batches] for phase in known}
    other = [
        max(batch.durations.get(TOTAL, 0.0) - sum(batch.durations.get(p, 0.0) for p in known), 0.0) * 1000
        for batch in batches
    ]
    layers["other" if known else "whole"] = other
    return stacked_plot("Time of a micro-batch", "ms", [batch.at for batch in batches], layers)


def _shares(queues: list[QueueTotal]) -> str:
    if not any(queue.messages for queue in queues):
        return ""
    even = sum(queue.messages for queue in queues) / len(queues)
    bars = {_name(queue.queue): float(queue.messages) for queue in queues}
    return bar_plot("Messages by queue", "skew shows as unequal bars", bars, (f"even share {short(even)}", even))


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}:{queue.queue_id}"


def _unplaced(batches: list[BatchProgress]) -> str:
    """Return a note on how many rows of first micro-batches are missing in the figures by queue; empty if none are.

    Spark does not report at which offsets the first micro-batch started.
    """
    rows = sum(b.rows for b in batches if b.batch_id == 0 and b.queues and not any(q.messages for q in b.queues))
    return f"<p>Without the {rows:,} rows of micro-batch 0: it does not say where its queues began.</p>" if rows else ""


def _table(queues: list[QueueTotal]) -> str:
    whole = sum(queue.messages for queue in queues)
    rows = "".join(
        f"<tr><td>{number}</td><td>{escape(_name(queue))}</td><td>{_known(messages if whole else None)}</td>"
        f"<td>{f'{messages / whole:.1%}' if whole else '–'}</td><td>{_known(lag)}</td></tr>"
        for number, (queue, messages, lag) in enumerate(queues, 1)
    )
    return (
        f"<table><tr><th></th><th>queue</th><th>messages</th><th>share</th><th>lag at the end</th></tr>{rows}</table>"
    )


def _known(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"
