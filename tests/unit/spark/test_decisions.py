"""Decisions: what follows from one for a half message, and that a record is there as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.spark.decisions import ArrowDirectory, Decision, DecisionError, Decisions, Verdict, directory, verdict

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
def test_the_latest_decision_answers(properties: dict[str, str], said: Verdict) -> None:
    assert verdict(properties, DECISION) is said
    assert verdict(properties, None) is Verdict.UNKNOWN


@pytest.fixture(params=["local", "uri", "arrow", "arrow-renames"])
def decisions(request: pytest.FixtureRequest, tmp_path: Path) -> Decisions:
    place = tmp_path / "check point" / "rocketmq"
    if request.param == "local":
        return Decisions.at(str(place))
    if request.param == "uri":
        return Decisions.at(place.as_uri())
    from pyarrow.fs import LocalFileSystem

    return Decisions("here", ArrowDirectory(LocalFileSystem(), str(place), request.param == "arrow-renames"))


def test_a_decision_is_made_once_and_the_last_two_are_kept(decisions: Decisions) -> None:
    assert decisions.latest() is None
    for number in range(7, 12):
        decisions.make(Decision("q", number, DECISION.attempts, DECISION.resent, DECISION.topics))
    assert decisions.latest() == Decision("q", 11, DECISION.attempts, DECISION.resent, DECISION.topics)
    assert len(decisions._where.names()) == 2
    with pytest.raises(DecisionError, match="micro-batch 11 is decided already; does the query run twice"):
        decisions.make(Decision("q", 11, frozenset()))


def test_two_drivers_cannot_both_decide(tmp_path: Path) -> None:
    class Late(type(directory(str(tmp_path)))):  # type: ignore[misc]
        """Has looked before the other driver wrote."""

        def names(self) -> list[str]:
            return []

    Decisions.at(str(tmp_path)).make(DECISION)
    with pytest.raises(DecisionError, match="cannot be written"):
        Decisions("here", Late(tmp_path)).make(Decision("q", 7, frozenset({"z"})))
    assert Decisions.at(str(tmp_path)).latest() == DECISION
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"form": 2}', b"\xff"])
def test_a_damaged_record_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"{3:020d}.json").write_bytes(content)
    with pytest.raises(DecisionError, match="cannot be read"):
        Decisions.at(str(tmp_path)).latest()


def test_a_place_python_cannot_reach_is_told() -> None:
    with pytest.raises(DecisionError, match="Give option transactionsLocation"):
        Decisions.at("dbfs:/checkpoints/x")
