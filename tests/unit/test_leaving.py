"""Fixtures of a session that end when the tests of their folder have ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.leaving import Leaving

SHARED = """
import pytest
from tests.unit.test_leaving import SAID

@pytest.fixture(scope="session")
def shared():
    SAID.append("{name} begins")
    yield
    SAID.append("{name} ends")

@pytest.fixture(scope="session")
def second(request):
    request.getfixturevalue("shared")
    SAID.append("second of {name} begins")
    yield
    SAID.append("second of {name} ends")
"""
TEST = """
from tests.unit.test_leaving import SAID

def test_it(second):
    SAID.append("a test of {name}")
"""
EVERYBODYS = """
import pytest
from tests.unit.test_leaving import SAID

@pytest.fixture(scope="session", autouse=True)
def everybodys():
    SAID.append("all begin")
    yield
    SAID.append("all end")
"""
SAID: list[str] = []
"""What happened in the inner run of pytest."""


def run(folder: Path, *tests: str) -> list[str]:
    """What the tests of these files and their fixtures said."""
    SAID.clear()
    words = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={folder}", f"--confcutdir={folder}"]
    status = pytest.main([*words, *(str(folder / test) for test in tests)], plugins=[Leaving()])
    assert status == pytest.ExitCode.OK
    return list(SAID)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "conftest.py").write_text(SHARED.format(name=name))
        for number in (1, 2):
            (tmp_path / name / f"test_{number}.py").write_text(TEST.format(name=name))
    return tmp_path


def test_what_a_folder_shares_ends_with_its_last_test_the_latest_first(folder: Path) -> None:
    both = ["{0} begins", "second of {0} begins", "a test of {0}", "a test of {0}", "second of {0} ends", "{0} ends"]
    assert run(folder, "a", "b") == [line.format(name) for name in "ab" for line in both]


def test_a_later_test_of_the_folder_sets_it_up_again(folder: Path) -> None:
    once = ["{0} begins", "second of {0} begins", "a test of {0}", "second of {0} ends", "{0} ends"]
    order = ["a/test_1.py", "b/test_1.py", "a/test_2.py"]
    assert run(folder, *order) == [line.format(name) for name in "aba" for line in once]


def test_what_all_tests_share_ends_with_the_session(folder: Path) -> None:
    (folder / "conftest.py").write_text(EVERYBODYS)
    said = run(folder, "a", "b")
    assert [said.index("all begin"), said.index("all end")] == [0, len(said) - 1]
    assert said.count("all begin") == 1
