"""Delta tables that have each row once, whatever is repeated; by the package deltalake, which needs no jar.

Spark repeats a micro-batch that it had not finished, with the same number and the same rows. Both functions leave a
table alone that has them already.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake


def query_id(checkpoint: Path) -> str:
    """The id of the query with this checkpoint. A query that starts over has another one, and its rows are new."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])


def append_once(path: Path, rows: pa.Table, query: str, batch: int) -> None:
    """Append the rows of a micro-batch; the same commit notes that the table has the micro-batch of this query."""
    table = DeltaTable.create(str(path), rows.schema, mode="ignore")
    last = table.transaction_version(query)
    if last is not None and last >= batch:
        return
    done = CommitProperties(app_transactions=[Transaction(query, batch)])
    write_deltalake(table, rows, mode="append", commit_properties=done)


def insert_new(path: Path, rows: pa.Table, key: str) -> None:
    """Insert the rows whose key the table does not have yet.

    The merge looks at the keys of the whole table. In one of many gigabytes, partition it, and name the partition in
    the condition.
    """
    table = DeltaTable.create(str(path), rows.schema, mode="ignore")
    merge = table.merge(rows, f"t.{key} = s.{key}", source_alias="s", target_alias="t")
    merge.when_not_matched_insert_all().execute()
