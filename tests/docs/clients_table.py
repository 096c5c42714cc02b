"""Writes the table of clients in docs/compatibility.md: ``python -m tests.docs.clients_table [--check]``."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.interop.foreign import RESULTS, Client, clients

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
COMMAND = "python -m tests.docs.clients_table"
START = f"<!-- Generated from tests/interop/clients/results.toml: {COMMAND} -->\n"
END = "<!-- End of the generated part -->\n"

MODES = {
    "send": "send", "async": "async", "oneway": "one-way", "batch": "batch", "ordered": "by key", "delay": "delay",
    "transaction": "trans&shy;action", "push": "push", "tags": "tags", "sql": "SQL", "orderly": "orderly",
    "retry": "retry", "broadcast": "broad&shy;cast", "pull": "pull", "steady": "restart",
}  # fmt: skip
"""Columns of the table."""

INTRO = """\
These clients speak the remoting protocol, come from public registries, and run against our broker and name server in
our tests. A test fails when a client no longer does what the table says, or does more.

"""

EXPLAINED = """
A dot means that the client does not offer it. The columns:

- **send**, **async**, **one-way**, **batch**: every message is stored with its tags and keys, and the client
  understands the answers. **by key**: messages with the same key are in one queue, in order.
- **delay**: a message with a delay level comes in time. **transaction**: commit, roll back, and the broker's question
  about a transaction that is left open.
- **push**, **pull**: all messages arrive. **tags**, **SQL**: those that match. **orderly**: in order, also after a
  failed attempt. **retry**: a message that fails is delivered again and says so. **broadcast**: each of two consumers
  gets all messages.
- **restart**: the broker and the name server are killed and started again on their store. The client sends and
  receives again by itself, and nothing that was confirmed is missing.

To run the clients yourself, you need Java and Maven, and Go, Node.js or Cargo for the clients in these languages. The
quick ones are part of `make test`, the others of `make test-long`:

```text
make test ARGS="tests/interop/test_foreign_clients.py"
```

"""


def section() -> str:
    """The text between the two marks."""
    facts = tomllib.loads(RESULTS.read_text())
    return INTRO + _table(clients()) + EXPLAINED + _notes(clients(), facts["note"]) + _others(facts["other"])


def _table(some: list[Client]) -> str:
    head = "| client | version | " + " | ".join(MODES.values()) + " |\n"
    rule = "|---|---|" + ":-:|" * len(MODES) + "\n"
    return head + rule + "".join(_row(client) for client in some)


def _row(client: Client) -> str:
    cells = " | ".join(_cell(client.modes.get(mode)) for mode in MODES)
    return f"| {client.language}: `{client.package}` | {client.version} | {cells} |\n"


def _cell(lacking: str | None) -> str:
    if lacking is None:
        return "·"
    return "fails" if lacking else "yes"


def _notes(some: list[Client], notes: list[str]) -> str:
    fails = [
        f"{client.package} {client.version}, {MODES[mode]}: {lacking}"
        for client in some
        for mode, lacking in client.modes.items()
        if lacking
    ]
    return "Notes:\n\n" + "".join(f"- {note}\n" for note in fails + notes) + "\n"


def _others(others: list[dict[str, Any]]) -> str:
    head = "Packages with RocketMQ in their name that are not in the table:\n\n"
    head += "| package | version | why |\n|---|---|---|\n"
    rows = (f"| {one['registry']}: `{one['package']}` | {one['version']} | {one['why']} |\n" for one in others)
    return head + "".join(rows) + "\n"


def page(text: str) -> str:
    """The page with the section as it has to be."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return before + START + "\n" + section() + END + after


if __name__ == "__main__":
    found = PAGE.read_text(encoding="utf-8")
    made = page(found)
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
    elif made != found:
        sys.exit(f"{PAGE} is out of date: {COMMAND}")
