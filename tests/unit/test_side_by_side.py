"""Running pytest in several processes: who gets which file, and what is shown of all of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import side_by_side
from tests.side_by_side import deal, files, main, split, status

ROOT = Path(__file__).parents[2]


def test_the_dearest_files_are_dealt_out_first() -> None:
    seconds = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 3.0, "e": 1.0}
    assert deal([Path(name) for name in seconds], seconds, 2) == [
        [Path("a"), Path("d")], [Path("b"), Path("c"), Path("e")],
    ]  # fmt: skip


def test_a_file_that_has_not_run_yet_counts_by_its_size(tmp_path: Path) -> None:
    for name, size in (("a", 10), ("b", 300), ("c", 200)):
        (tmp_path / name).write_bytes(bytes(size))
    shares = deal([tmp_path / name for name in "abc"], {}, 2)
    assert [[file.name for file in share] for share in shares] == [["b"], ["c", "a"]]


@pytest.mark.parametrize(("count", "processes", "used"), [(1, 3, 1), (5, 3, 3), (0, 3, 1)])
def test_no_process_is_without_a_file(count: int, processes: int, used: int) -> None:
    named = [Path(str(number)) for number in range(count)]
    assert len(deal(named, {file.as_posix(): 1.0 for file in named}, processes)) == used


def test_paths_are_told_from_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    for name in ("test_a.py", "test_b.py", "helper.py"):
        (tmp_path / "tests" / "unit" / name).write_text("")
    words = ["-q", "-k", "wire", "tests/unit/test_a.py::test_it"]
    assert split(words) == (["-q", "-k", "wire"], ["tests/unit/test_a.py::test_it"])
    assert split(["-q"]) == (["-q"], [*side_by_side.UNIT])
    assert files(["tests/unit/test_a.py::test_it"]) == [Path("tests/unit/test_a.py")]
    assert files(["tests"]) == [Path("tests/unit/test_a.py"), Path("tests/unit/test_b.py")]


@pytest.mark.parametrize(
    ("statuses", "of_all"), [([0, 0], 0), ([0, 1], 1), ([1, 2, 0], 2), ([0, 5], 0), ([5, 5], 5), ([0, -9], 1)]
)
def test_the_status_is_that_of_the_worst_process(statuses: list[int], of_all: int) -> None:
    assert status(statuses) == of_all


def test_every_test_runs_once_and_failures_come_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three files in two processes, which share nothing of the pytest that runs this."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("UNIT_PROCESSES", "2")
    (tmp_path / "tests").mkdir()
    note = "from pathlib import Path\ndef note(name):\n    Path('ran').open('a').write(name + ' ')\n"
    for name, body in (("a", "note('a')"), ("b", "note('b'); assert 1 == 2"), ("c", "note('c')")):
        text = f"{note}def test_{name}():\n    {body}\n"
        (tmp_path / "tests" / f"test_{name}.py").write_text(text)
    assert main(["-q", "-W", "ignore", "tests"]) == 1
    assert sorted((tmp_path / "ran").read_text().split()) == ["a", "b", "c"]
    *before, failed, total = capsys.readouterr().out.splitlines()
    assert "E       assert 1 == 2" in before
    assert failed == "FAILED tests/test_b.py::test_b - assert 1 == 2"
    assert total.startswith("1 failed, 2 passed in ")
    assert not side_by_side.SECONDS.exists()
    (tmp_path / "tests" / "test_b.py").unlink()
    assert main(["-q", "-W", "ignore", "tests"]) == 0
    assert sorted(json.loads(side_by_side.SECONDS.read_text())) == ["tests/test_a.py", "tests/test_c.py"]
