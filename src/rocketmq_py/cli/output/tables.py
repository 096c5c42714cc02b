"""Print rows as a table, as one JSON document, or as one JSON line per row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

Row = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])

TABLE, JSON, JSONL = "table", "json", "jsonl"


def output_option(function: F) -> F:
    """Add the option ``-o table|json|jsonl`` to a command, which gets it as ``output``."""
    option = click.option(
        "-o", "--output", type=click.Choice((TABLE, JSON, JSONL)), default=TABLE, show_default=True,
        help="Print a table, one JSON document, or one JSON line per row.",
    )  # fmt: skip
    return option(function)


def echo_rows(rows: Iterable[Row], output: str, columns: Sequence[str] | None = None) -> None:
    """Print rows; a table shows only ``columns``, JSON shows all fields."""
    if output == JSONL:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif output == JSON:
        click.echo(json.dumps(list(rows), ensure_ascii=False, indent=2))
    else:
        click.echo(table_text(list(rows), columns))


def echo_record(record: Row, output: str) -> None:
    """Print one record: name and value on each line, or one JSON object."""
    if output != TABLE:
        click.echo(json.dumps(record, ensure_ascii=False, indent=2 if output == JSON else None))
        return
    width = max(map(len, record), default=0)
    for name, value in record.items():
        for number, line in enumerate(_lines(value)):
            click.echo(f"{'' if number else name:<{width}}  {line}")


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name} = {_text(one)}" for name, one in value.items()] or ["-"]
    if isinstance(value, list):
        return [_text(one) for one in value] or ["-"]
    return [_text(value)]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{name}={_text(one)}" for name, one in value.items()) or "-"
    return "-" if value is None else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def table_text(rows: Sequence[Row], columns: Sequence[str] | None = None) -> str:
    """Return the text of a table with a bold header.

    :param columns: the columns to show; None for all, in the order of their first occurrence.
    """
    names = list(columns) if columns is not None else list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_text(row.get(name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    is_number = [all(_is_number(row.get(name)) for row in rows) for name in names]
    lines = []
    for line in (names, *cells):
        parts = [f"{cell:>{width}}" if right else f"{cell:<{width}}"
                 for cell, width, right in zip(line, widths, is_number, strict=True)]  # fmt: skip
        lines.append("  ".join(parts).rstrip())
    return "\n".join((click.style(lines[0], bold=True), *lines[1:]))
