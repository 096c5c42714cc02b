"""Decisions for half messages: durable, made once, and never partial."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from obstore.store import LocalStore, MemoryStore

from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.decision_store.decisions import Decision, DecisionError, Decisions, Verdict, verdict
from rocketmq_py.spark.decision_store.object_store import ObjectDecisionStore
from rocketmq_py.spark.decision_store.stores import DecisionStore, LocalDecisionStore, split, store_at

DECISION = Decision("q", 7, frozenset({"a", "b"}), {"0-5": "U9"}, ("t",))


def half(query: str = "q", batch: int = 7, attempt: str = "a", row: str = "0-1", key: str = "U1") -> dict[str, str]:
    return {
        "SPARK_QUERY_ID": query, "SPARK_BATCH_ID": str(batch), "SPARK_ATTEMPT": attempt, "SPARK_ROW_KEY": row,
        "UNIQ_KEY": key,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (half(), Verdict.COMMIT),
        (half(attempt="b"), Verdict.COMMIT),
        (half(attempt="c"), Verdict.ROLLBACK),
        (half(row="0-5"), Verdict.ROLLBACK),
        (half(row="0-5", key="U9"), Verdict.COMMIT),
        (half(batch=6), Verdict.ROLLBACK),
        (half(batch=8), Verdict.UNKNOWN),
        (half(query="r"), Verdict.UNKNOWN),
        ({"PGROUP": "g"}, Verdict.UNKNOWN),
    ],
)
def test_the_latest_decision_is_read(properties: dict[str, str], said: Verdict) -> None:
    assert verdict(properties, DECISION) is said
    assert verdict(properties, None) is Verdict.UNKNOWN


@pytest.fixture(params=["local", "uri", "objects", "objects-local"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> DecisionStore:
    folder = tmp_path / "check point" / "100% sure"
    if request.param == "local":
        return store_at(str(folder), {})
    if request.param == "uri":
        return store_at(f"file://{folder}", {})
    return ObjectDecisionStore(MemoryStore() if request.param == "objects" else LocalStore(folder, mkdir=True))


@pytest.fixture
def decisions(where: DecisionStore) -> Decisions:
    return Decisions("here", where)


def decide(number: int, *attempts: str) -> Decision:
    return Decision("q", number, frozenset(attempts) or DECISION.attempts, DECISION.resent, DECISION.topics)


def test_a_decision_is_made_once_and_the_last_two_are_kept(decisions: Decisions) -> None:
    assert decisions.latest() is None
    for number in range(7, 12):
        decisions.make(decide(number))
    assert decisions.latest() == decide(11)
    assert len(decisions._store.names()) == 2
    with pytest.raises(DecisionError, match="micro-batch 11 is decided already; does the query run twice"):
        decisions.make(Decision("q", 11, frozenset()))


class Late:
    """A driver that is overtaken between its look and its write."""

    def __init__(self, where: DecisionStore, meanwhile: Callable[[], None]) -> None:
        self._where = where
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._where, name)

    def create(self, name: str, content: bytes) -> None:
        self._meanwhile()
        self._where.create(name, content)


def test_two_drivers_cannot_both_decide(where: DecisionStore, decisions: Decisions) -> None:
    decisions.make(decide(6))
    late = Late(where, lambda: decisions.make(decide(7)))
    with pytest.raises(DecisionError, match="cannot be written"):
        Decisions("here", late).make(decide(7, "z"))
    assert decisions.latest() == decide(7)
    assert len(where.names()) == 2


def test_a_driver_cannot_decide_after_its_successor(where: DecisionStore, decisions: Decisions) -> None:
    def meanwhile() -> None:
        for number in range(7, 10):
            decisions.make(decide(number))

    with pytest.raises(DecisionError, match="micro-batch 9 is decided already; does the query run twice"):
        Decisions("here", Late(where, meanwhile)).make(decide(7, "z"))
    assert decisions.latest() == decide(9)


def test_a_repeated_write_after_a_lost_answer_succeeds(where: DecisionStore) -> None:
    late = Late(where, lambda: where.create(f"{7:020d}.json", decide(7).encode()))
    Decisions("here", late).make(decide(7))
    assert Decisions("here", where).latest() == decide(7)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"form": 2}', b"\xff"])
def test_a_damaged_record_raises(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"{3:020d}.json").write_bytes(content)
    with pytest.raises(DecisionError, match="cannot be read"):
        Decisions.at(str(tmp_path)).latest()


def test_a_record_can_be_removed_twice(where: DecisionStore) -> None:
    where.create("a", b"1")
    where.remove("a")
    where.remove("a")
    assert where.names() == []


def test_an_unsupported_location_is_refused() -> None:
    with pytest.raises(ConfigError, match="Give option transactionsLocation"):
        Decisions.at("dbfs:/checkpoints/x")
    with pytest.raises(ConfigError, match="s3://"):
        Decisions.at("s3://")


def test_a_checkpoint_on_another_machine_is_refused(tmp_path: Path) -> None:
    where = LocalDecisionStore(tmp_path / "checkpoint" / "rocketmq", tmp_path / "checkpoint" / "metadata")
    with pytest.raises(DecisionError, match=r"metadata, is not on this machine.*write the whole URI"):
        Decisions("here", where).latest()
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text("{}")
    assert Decisions("here", where).latest() is None


CORE_SITE = """<configuration><property><name>hadoop.tmp.dir</name><value>/tmp</value></property>
<property><name>fs.defaultFS</name><value>{}</value></property></configuration>"""


@pytest.mark.parametrize(
    ("location", "default", "found"),
    [
        ("checkpoints/a", None, ("file", "checkpoints/a")),
        ("/checkpoints/a", "hdfs://nn:8020", ("hdfs", "/checkpoints/a")),
        ("/checkpoints/a", "file:///", ("file", "/checkpoints/a")),
        ("file:/checkpoints/50%20", "hdfs://nn:8020", ("file", "/checkpoints/50%20")),
        ("S3A://bucket/a", None, ("s3a", "bucket/a")),
        ("C:\\checkpoints", None, ("file", "C:\\checkpoints")),
    ],
)
def test_locations_are_read_as_spark_reads_them(
    tmp_path: Path, location: str, default: str | None, found: tuple[str, str]
) -> None:
    if default is not None:
        (tmp_path / "core-site.xml").write_text(CORE_SITE.format(default))
    assert split(location, {"HADOOP_CONF_DIR": str(tmp_path)}) == found


def test_a_record_of_a_newer_version_says_so() -> None:
    newer = DECISION.encode().replace(b'"form": 1', b'"form": 2')
    with pytest.raises(DecisionError, match="it has form 2, this version reads 1: use a newer version"):
        Decision.decode(newer)
    assert Decision.decode(DECISION.encode()) == DECISION
