"""What a program of ``clients`` must show for a mode to work: decisions about the rows of a run, without IO.

A row is a line of the program (see ``clients/README.md``), or ``stored``: a message that our own consumer has read from
the mode's topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

Row = dict[str, Any]
Judge = Callable[[list[Row]], str]
"""Takes the rows of a mode; returns what is missing or wrong, or an empty text."""

SENT = 10
ORDERED = 12
RECEIVED = 20
DELAY_LEVELS = "1s 2s 1s 1s 1s 1s"
"""Retries come soon with it; level 2 is the one that ``delay`` uses."""
BROADCASTS = 5

INPUTS = [(str(i), "ABC"[i % 3], f"k-{i}") for i in range(RECEIVED)]
"""Body, tag and key of the messages that a receiving mode finds; number i is in queue i % 4 and has the
property a=i."""


def of(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def difference(got: list[Any], wanted: list[Any], what: str) -> str:
    lacking, foreign = [one for one in wanted if one not in got], [one for one in got if one not in wanted]
    if lacking:
        return f"{len(lacking)} of {len(wanted)} {what} are missing, {lacking[0]} first"
    return f"unexpected: {foreign[0]}" if foreign else ""


def triples(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row["body"], row.get("tags"), row.get("keys")) for row in rows]


def stored_as_sent(rows: list[Row]) -> str:
    wanted = [(str(i), "AB"[i % 2], f"k-{i}") for i in range(SENT)]
    return difference(triples(of(rows, "stored")), wanted, "messages")


def confirmed(rows: list[Row]) -> str:
    """As sent, and the broker's answer to each was understood."""
    answers = [(row["body"], bool(row["id"])) for row in of(rows, "sent")]
    return difference(answers, [(str(i), True) for i in range(SENT)], "answers") or stored_as_sent(rows)


def ordered(rows: list[Row]) -> str:
    stored = of(rows, "stored")
    queues: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in stored:
        queues[int(row["body"]) % 3].append((row["queue"], row["offset"]))
    for shard, places in queues.items():
        if len({queue for queue, _ in places}) != 1:
            return f"shard {shard} is in several queues"
    places = {row["body"]: (int(row["body"]) % 3, row["offset"]) for row in stored}
    for i in range(ORDERED - 3):
        if str(i) in places and str(i + 3) in places and places[str(i)] >= places[str(i + 3)]:
            return f"{i + 3} is before {i}"
    return difference(sorted(places), sorted(map(str, range(ORDERED))), "messages")


def delayed(rows: list[Row]) -> str:
    stored = of(rows, "stored")
    if len(stored) != 1:
        return f"{len(stored)} messages instead of 1"
    return "" if stored[0]["late"] >= 1900 else f"came after {stored[0]['late']} ms"


def transacted(rows: list[Row]) -> str:
    if "unknown" not in [row["body"] for row in of(rows, "checked")]:
        return "was not asked about the unknown transaction"
    return difference([row["body"] for row in of(rows, "stored")], ["commit", "unknown"], "messages")


def received(rows: list[Row]) -> str:
    return difference(triples(of(rows, "got")), INPUTS, "messages")


def received_by_tag(rows: list[Row]) -> str:
    return difference(triples(of(rows, "got")), [one for one in INPUTS if one[1] in "AB"], "messages")


def received_by_sql(rows: list[Row]) -> str:
    return difference(triples(of(rows, "got")), [one for one in INPUTS if int(one[0]) > 4], "messages")


def in_order(rows: list[Row]) -> str:
    last: dict[int, int] = {}
    for row in of(rows, "got"):
        if last.get(row["queue"], -1) >= row["offset"]:
            return f"offset {row['offset']} came after {last[row['queue']]}"
        last[row["queue"]] = row["offset"]
    return received(rows)


def delivered_again(rows: list[Row]) -> str:
    """Each message is delivered a second time; some clients send a whole batch back before it is looked at."""
    times, wrong = _times_of(rows)
    return wrong or difference(_again(times), [body for body, *_ in INPUTS], "retries")


def mostly_delivered_again(rows: list[Row]) -> str:
    """As :func:`delivered_again`, for clients that ask only once for a second delivery: half of them must come."""
    times, wrong = _times_of(rows)
    came = len(_again(times))
    return (
        wrong
        or difference(list(times), [body for body, *_ in INPUTS], "messages")
        or ("" if came >= RECEIVED // 2 else f"{came} of {RECEIVED} retries came")
    )


def _times_of(rows: list[Row]) -> tuple[dict[str, list[int]], str]:
    """The numbers of deliveries before each delivery, by message; and what is wrong with them."""
    times: defaultdict[str, list[int]] = defaultdict(list)
    for row in of(rows, "got"):
        times[row["body"]].append(row["times"])
    wrong = [
        f"message {body} came with reconsumeTimes {counted}"
        for body, counted in times.items()
        if counted not in ([0], [0, 1], [1])
    ]
    return times, wrong[0] if wrong else ""


def _again(times: dict[str, list[int]]) -> list[str]:
    return [body for body, counted in times.items() if counted[-1] == 1]


def received_by_each(rows: list[Row]) -> str:
    seen = [{row["body"] for row in of(rows, "got") if row["who"] == who} for who in (0, 1)]
    common = len(seen[0] & seen[1])
    return (
        "" if common >= BROADCASTS else f"the two consumers got {len(seen[0])} and {len(seen[1])}, {common} in common"
    )


def came_back(rows: list[Row]) -> str:
    """After the row ``restarted``: messages are sent and delivered again, and none that was confirmed is missing."""
    restart = next((i for i, row in enumerate(rows) if row["kind"] == "restarted"), len(rows))
    after = {row["body"] for row in of(rows[restart:], "sent")}
    if not after:
        return "sends nothing after the restart"
    got = {row["body"] for row in of(rows, "got")}
    if not after & got:
        return "receives nothing after the restart"
    lost = {row["body"] for row in of(rows[:restart], "sent")} - got
    return f"{len(lost)} messages from before the restart are missing" if lost else ""


JUDGES: dict[str, Judge] = {
    "send": confirmed, "async": confirmed, "oneway": stored_as_sent, "batch": stored_as_sent, "ordered": ordered,
    "delay": delayed, "transaction": transacted, "push": received, "tags": received_by_tag, "sql": received_by_sql,
    "orderly": in_order, "retry": delivered_again, "broadcast": received_by_each, "pull": received, "steady": came_back,
}  # fmt: skip
READ_BY_US = ("send", "async", "oneway", "batch", "ordered", "delay", "transaction")
FED_BY_US = ("push", "tags", "sql", "orderly", "retry", "pull")


def verdicts(rows: list[Row], modes: tuple[str, ...], judges: Mapping[str, Judge] = JUDGES) -> dict[str, str]:
    """What each mode lacks; what the program says went wrong comes first, since the rest follows from it."""
    return {mode: verdict([row for row in rows if row["mode"] == mode], judges[mode]) for mode in modes}


def verdict(rows: list[Row], judge: Judge) -> str:
    lacking = judge(rows)
    errors = of(rows, "error")
    return f"{lacking} ({errors[0]['text']})" if lacking and errors else lacking
