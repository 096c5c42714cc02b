"""Floors of the coverage of packages: what is compared, and what is said of those that fall short."""

from __future__ import annotations

import importlib.util
import json
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_floors", ROOT / "tools/coverage_floors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["coverage_floors"] = module
    spec.loader.exec_module(module)
    return module


def summary(lines: int, of_lines: int, branches: int = 0, of_branches: int = 0) -> dict[str, Any]:
    return {"summary": {
        "covered_lines": lines, "num_statements": of_lines, "covered_branches": branches, "num_branches": of_branches,
    }}  # fmt: skip


REPORT = {"files": {
    "src/rocketmq_py/store/cleaner.py": summary(80, 90, 10, 10),
    "src/rocketmq_py/store/log/scan.py": summary(5, 50, 5, 50),
    "C:\\clone\\src\\rocketmq_py\\wire\\frame.py": summary(97, 100),
    "src/rocketmq_py/errors.py": summary(3, 4),
}}  # fmt: skip


def test_lines_and_branches_of_a_package_count_together(tool: ModuleType) -> None:
    rows = tool.rows(REPORT, {"store": 50.0, "wire": 97.0, "top": 75.1, "gone": 90.0})
    assert [(row.package, row.covered, row.total, row.is_short) for row in rows] == [
        ("gone", 0, 0, False), ("store", 100, 200, False), ("top", 3, 4, True), ("wire", 97, 100, False),
    ]  # fmt: skip


def test_a_package_that_falls_short_is_told(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "coverage.json").write_text(json.dumps(REPORT))
    for floors, status, said in (
        ("store = 50\nwire = 97\ntop = 75", 0, ""),
        ("store = 52.1\nwire = 97\ntop = 75", 1, "store         50.0  52.1  2.1 too little: 5 lines or branches"),
        ("store = 50\ntop = 75", 1, "wire          97.0  no floor: add one to pyproject.toml"),
    ):
        (tmp_path / "pyproject.toml").write_text(f"[tool.coverage_floors]\n{floors}\n")
        assert tool.main([str(tmp_path / "coverage.json")]) == status
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "package    percent floor"
        assert len(lines) == 4
        assert not said or said in lines, lines
    assert tool.main([]) == 2


def test_every_package_has_a_floor() -> None:
    floors = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage_floors"]
    packages = {path.parent.name for path in (ROOT / "src/rocketmq_py").glob("*/__init__.py")}
    assert set(floors) == packages | {"top"}
    assert all(0 < floor <= 100 for floor in floors.values())
