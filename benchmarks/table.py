"""``python -m benchmarks.table bench-results/*.json``: stored results as a Markdown table, for docs/benchmarks.md.

Of several results of a row the newest counts. Results with and without the accelerator are columns of one row.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.figures import Tails, human
from benchmarks.rows import ROWS

BEGIN, END = "<!-- figures: python -m benchmarks.table -->", "<!-- end of figures -->"
"""Lines of the page between which ``--into`` writes the table."""
HEADINGS = (
    "row", "unit", "ours", "peer", "ratio", "must", "cores", "p50 / p99 / p99.9 µs", "peer's",
    "ours, pure Python", "ratio", "must",
)  # fmt: skip
_RIGHT = {"ratio"}

Record = dict[str, Any]


class Result(NamedTuple):
    """The newest results of one figure, as stored; None if it was not measured so."""

    compiled: Record | None
    plain: Record | None


def results(files: Iterable[Record]) -> dict[str, Result]:
    """Return the newest results by figure, in the order of the benchmark's rows.

    :param files: contents of results files. Those without a note about it were measured with the accelerator.
    """
    newest: dict[str, Result] = {}
    for file in sorted(files, key=lambda each: str(each["time"])):
        for record in file["figures"]:
            known = newest.get(record["name"], Result(None, None))
            which = "compiled" if file["settings"].get("accelerator", True) else "plain"
            newest[record["name"]] = known._replace(**{which: record})
    return dict(sorted(newest.items(), key=lambda item: _place(item[0])))


def _place(name: str) -> int:
    """Return the place of a figure's row among the benchmark's rows; figures of unknown rows come last."""
    rows = list(ROWS)
    own = [row for row in rows if name == row or name.startswith(f"{row}-")]
    return rows.index(max(own, key=len)) if own else len(rows)


def markdown(found: dict[str, Result]) -> str:
    """Format results as a Markdown table with one line for each figure."""
    rule = ["---:" if heading in _RIGHT else "---" for heading in HEADINGS]
    return "\n".join(_line(cells) for cells in (HEADINGS, rule, *(_cells(*item) for item in found.items())))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(name: str, result: Result) -> list[str]:
    one = result.compiled or result.plain or {}
    compiled = result.compiled or {}
    cores = compiled.get("cores", {})
    tails = compiled.get("us", {})
    return [
        name,
        str(one["unit"]),
        *_judged(result.compiled, with_peer=True),
        " / ".join(f"{cores[side]:.2f}" for side in ("ours", "peer") if side in cores),
        *(_percentiles(tails[side]) if tails else "" for side in ("ours", "peer")),
        *_judged(result.plain, with_peer=False),
    ]


def _judged(record: Record | None, *, with_peer: bool) -> list[str]:
    """Return our values, the peer's if wanted, the ratio and its limit; a missed limit is bold, no result is empty."""
    peer = [_values(record["peer_runs"]) if record else ""] if with_peer else []
    if record is None:
        return ["", *peer, "", ""]
    ratio = f"{record['ratio']:.2f} ×"
    return [_values(record["ours_runs"]), *peer, ratio if record["holds"] else f"**{ratio}**", str(record["floor"])]


def _percentiles(tails: Record) -> str:
    return " / ".join(human(tails[name]) for name in Tails._fields)


def _values(runs: Sequence[float]) -> str:
    return f"{human(statistics.median(runs))} ({human(min(runs))} – {human(max(runs))})"


def circumstances(files: Iterable[Record]) -> str:
    """Say on what machine, when and with how much work the results were measured."""
    known = sorted(files, key=lambda each: str(each["time"]))
    text = "{cores} cores, {system}, Python {python}, {java}"
    machines = dict.fromkeys(text.format_map(each["machine"]) for each in known)
    days = dict.fromkeys(str(each["time"])[:10] for each in known)
    quick = sum(bool(each["settings"]["quick"]) for each in known)
    amount = f"; {quick} of {len(known)} results with `--quick`" if quick else ""
    return f"{'; '.join(machines)}. Measured on {', '.join(days)}{amount}. Median (minimum – maximum) of the runs."


def written_into(page: str, text: str) -> str:
    """Return a page with ``text`` between its two marks, instead of what was there.

    :raises click.ClickException: the page lacks the marks.
    """
    before, begin, rest = page.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise click.ClickException(f"the page has no lines {BEGIN!r} and {END!r}")
    return f"{before}{begin}\n{text}\n\n{end}{after}"


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--into", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Write it into this page.")
def main(paths: tuple[Path, ...], into: Path | None) -> None:
    """Print the results files PATHS as a Markdown table."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    text = f"{circumstances(files)}\n\n{markdown(results(files))}"
    if into is None:
        click.echo(text)
    else:
        into.write_text(written_into(into.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
