"""Test files of higher tiers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import tiers
from tests.mutants.tiers import HIGHER, higher_files

TESTS = Path(__file__).parents[2]
SOURCES = TESTS.parent / "src" / "rocketmq_py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tiers, "HIGHER", {"broker": ("a.py",), "broker/pop": ("b.py", "a.py"), "broker/po": ("c.py",)})
    for name in ("a.py", "b.py"):
        (tmp_path / name).touch()
    return tmp_path


def test_the_longest_beginning_of_a_name_comes_first_and_a_beginning_ends_with_a_part(folder: Path) -> None:
    assert higher_files("broker/pop/pop.py", folder) == [folder / "b.py", folder / "a.py"]
    assert higher_files("broker/pop.py", folder) == [folder / "b.py", folder / "a.py"]
    assert higher_files("broker/records/a.py", folder) == [folder / "a.py"]
    assert higher_files("model.py", folder) == []


def test_a_file_that_is_gone_is_an_error(folder: Path) -> None:
    (folder / "b.py").unlink()
    with pytest.raises(FileNotFoundError, match=r"b\.py"):
        higher_files("broker/pop/pop.py", folder)


@pytest.mark.parametrize("beginning", HIGHER)
def test_the_table_names_sources_and_tests_that_exist(beginning: str) -> None:
    path = SOURCES / beginning
    assert path.exists() or path.with_suffix(".py").exists()
    assert higher_files(beginning, TESTS)
