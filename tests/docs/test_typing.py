"""The public types serve users: pyright accepts the example programs and the programs of the documentation.

mypy checks the examples in ``make check``. It is not used for the documentation, whose blocks define names again.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import examples, joined

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
SETTINGS = {
    "include": ["examples", "programs"],
    "extraPaths": [str(ROOT / "src"), str(ROOT)],  # a page shows the chaos kit of a checkout
    "pythonVersion": "3.11",
    "typeCheckingMode": "standard",
    "useLibraryCodeForTypes": False,  # pandas ships no types; what is inferred from its source is wrong
    "reportMissingModuleSource": False,
    "reportRedeclaration": False,  # one page has several functions of one name
    "reportOptionalMemberAccess": False,  # a page is no place for assertions about None
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the examples, and the Python blocks of each page as one program."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "programs").mkdir()
    for path, blocks in examples():
        name = re.sub(r"\W", "_", path.relative_to(ROOT).with_suffix("").as_posix())
        (tmp_path / "programs" / f"{name}.py").write_text(joined(blocks), encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    return tmp_path


def pyright(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyright", *map(str, words)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.mark.timeout(600)
def test_pyright_accepts_examples_and_pages(project: Path) -> None:
    pytest.importorskip("pyspark")
    if importlib.util.find_spec("pyright") is None or shutil.which("node") is None:
        pytest.skip("pyright needs its package and Node.js")
    if pyright("--version").returncode != 0:
        pytest.skip("pyright cannot be fetched")
    done = pyright("--project", project / "pyrightconfig.json", "--pythonpath", sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
