"""One answer in the form that was asked for: HTML, JSON or CSV, from the same data."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from rocketmq_py.console.security import Refused

HTML, JSON, CSV = "html", "json", "csv"
UNKNOWN = "?"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says.

    :ivar template: name of the HTML template.
    :ivar data: the JSON answer, and the variables of the template.
    :ivar rows: the name of the list in ``data`` that is the CSV answer; None if the page is no table.
    :ivar columns: columns of the CSV answer.
    """

    template: str
    data: dict[str, Any]
    rows: str | None = None
    columns: Sequence[str] = field(default=())
    status: int = 200


def wanted_format(request: Request) -> str:
    """Return the format that a request asks for: by ``?format=``, else by its Accept header.

    :raises Refused: there is no such format.
    """
    given = request.query_params.get("format")
    if given is not None:
        if given not in (HTML, JSON, CSV):
            raise Refused(400, f"format={given[:40]!r} is not one of {HTML}, {JSON}, {CSV}")
        return given
    for part in request.headers.get("accept", "").split(","):
        kind = part.partition(";")[0].strip().lower()
        if kind in ("text/html", "application/xhtml+xml", "*/*", "text/*"):
            return HTML
        if kind == "application/json":
            return JSON
        if kind == "text/csv":
            return CSV
    return HTML


def as_json(data: Mapping[str, Any]) -> str:
    """Encode the data of a page as JSON; bytes and other objects are not allowed in it."""
    return json.dumps(data, ensure_ascii=False, indent=1)


def as_csv(rows: Iterable[Row], columns: Sequence[str]) -> str:
    """Encode rows as CSV. A text that a spreadsheet would run as a formula gets an apostrophe in front."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(column)) for column in columns])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return UNKNOWN
    if isinstance(value, list | tuple | dict):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value


def number(request: Request, name: str, default: int, *, least: int = 0, most: int = 10**18) -> int:
    """Return a number in the query.

    :raises Refused: it is no number, or outside of its range.
    """
    text = request.query_params.get(name, "").strip()
    return parse_number(name, text, least=least, most=most) if text else default


def parse_number(name: str, text: str, *, least: int = 0, most: int = 10**18) -> int:
    """Parse a number.

    :raises Refused: it is no number, or outside of its range.
    """
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or not least <= int(text) <= most:
        raise Refused(400, f"{name}={text[:40]!r} is not a number from {least} to {most}")
    return int(text)


def paged(names: Sequence[Any], page: int, size: int) -> tuple[Sequence[Any], dict[str, int]]:
    """Return one page of a list, and what the template says about pages.

    :param page: number of the page, from 1; one behind the end is the last.
    """
    pages = max(1, -(-len(names) // size))
    page = min(max(1, page), pages)
    part = names[(page - 1) * size : page * size]
    return part, {"page": page, "pages": pages, "total": len(names), "size": size}


def base_of(request: Request) -> str:
    """Return what stands before the paths of a cluster's pages: empty unless the console shows several clusters."""
    return str(request.scope.get("root_path", ""))
