"""A home for Spark: links to the installation, and archives with compiled modules."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocketmq_py.spark.runtime.home import compiled_home, ensure_compiled_home

pytestmark = pytest.mark.skipif(os.name != "posix", reason="made of links")

MODULE = "import sys; warned_of = '\\_'\nprint(__file__, __spec__.cached or __spec__.origin)\n1 / 0\n"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What pip leaves of PySpark, as far as it matters here."""
    root = tmp_path / "pyspark"
    (root / "jars").mkdir(parents=True)
    (root / "jars" / "spark-core.jar").touch()
    (root / "__init__.py").touch()
    (root / "python" / "pyspark").mkdir(parents=True)
    (root / "python" / "lib").mkdir()
    with zipfile.ZipFile(root / "python" / "lib" / "pyspark.zip", "w") as archive:
        for name in ("told.py", "some/__init__.py", "some/tests/test_more.py"):
            archive.writestr(name, MODULE)
        archive.writestr("some/py.typed", "")
    return root


def test_other_files_are_links_to_the_installation(installed: Path, tmp_path: Path) -> None:
    home = compiled_home(installed, tmp_path)
    assert (home / "jars" / "spark-core.jar").samefile(installed / "jars" / "spark-core.jar")
    assert (home / "python" / "pyspark").samefile(installed / "python" / "pyspark")
    (installed / "conf").mkdir()
    assert (home / "conf").samefile(installed / "conf"), "settings that come later are seen, too"


def test_compiled_modules_show_source_lines_in_tracebacks(installed: Path, tmp_path: Path) -> None:
    archive = compiled_home(installed, tmp_path) / "python" / "lib" / "pyspark.zip"
    done = subprocess.run(
        [sys.executable, "-c", "import told"],
        env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout.split()[0] == f"{archive}/told.pyc"
    assert f'"{archive}/told.py", line 3' in done.stderr


def test_a_python_of_another_version_finds_the_sources(installed: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(compiled_home(installed, tmp_path) / "python" / "lib" / "pyspark.zip") as archive:
        assert sorted(archive.namelist()) == [
            "some/__init__.py", "some/__init__.pyc", "some/py.typed", "told.py", "told.pyc"
        ]  # fmt: skip
        assert archive.read("told.py").decode() == MODULE


def test_the_home_is_created_once_per_installation(installed: Path, tmp_path: Path) -> None:
    home = compiled_home(installed, tmp_path)
    (home / "mark").touch()
    assert (compiled_home(installed, tmp_path) / "mark").exists()
    os.utime(installed / "python" / "lib" / "pyspark.zip", (1, 1))
    assert compiled_home(installed, tmp_path) != home
    assert not list(tmp_path.glob(".draft-*"))


def test_spark_home_is_set(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "given")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(installed.parent)
    assert ensure_compiled_home() is None
    assert os.environ["SPARK_HOME"] == "given", "who sets it knows why"
    monkeypatch.delenv("SPARK_HOME")
    home = ensure_compiled_home()
    assert home is not None
    assert os.environ["SPARK_HOME"] == str(home)
    assert home.parent == tmp_path / "cache" / "rocketmq-py"
    (installed / "jars").rename(installed / "no-jars")
    assert ensure_compiled_home() is None, "a client of Spark Connect has no Spark to start"
    (installed / "no-jars").rename(installed / "jars")
    (installed / "python" / "lib" / "pyspark.zip").unlink()
    assert ensure_compiled_home() is None, "part of a distribution"


def test_a_home_made_before_is_replaced(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a program that set it starts another one, with another installation."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: SimpleNamespace(origin=str(installed / "__init__.py")))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    home = ensure_compiled_home()
    assert home is not None
    monkeypatch.setenv("SPARK_HOME", str(home.with_name(f"{home.name[:-1]}x")))
    assert ensure_compiled_home() == home
    for found in (None, SimpleNamespace(origin=None)):
        monkeypatch.setattr("importlib.util.find_spec", lambda _, found=found: found)
        assert ensure_compiled_home() is None


def test_a_home_that_another_process_made_meanwhile_is_used(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def late(draft: Path, home: Path) -> Path:
        (home / "theirs").mkdir(parents=True)
        return rename(draft, home)

    monkeypatch.setattr(Path, "rename", late)
    assert (compiled_home(installed, tmp_path) / "theirs").is_dir()
    assert not list(tmp_path.glob(".draft-*"))


def test_a_home_that_cannot_be_made_is_an_error(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Path, home: Path) -> Path:
        raise PermissionError(home)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(PermissionError):
        compiled_home(installed, tmp_path)
    assert not list(tmp_path.glob(".draft-*"))
