"""A standalone Spark cluster on this machine: a master and two workers, and machines' Python as a cluster has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from importlib.metadata import distribution
from pathlib import Path
from threading import Thread
from typing import Self

import pyspark
from packaging.requirements import Requirement

import rocketmq_py
from rocketmq_py.spark import ensure_java
from rocketmq_py.spark.runtime.home import ensure_compiled_home

SOURCES = Path(rocketmq_py.__file__).parents[1]
OURS = ("rocketmq_py", "pyspark_rocketmq")
NEEDED = ("msgspec", "click", "pyarrow", "pandas", "numpy")
"""What the package needs on a machine that runs executors; PySpark itself comes with Spark."""
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Java that starts fast rather than getting fast."""
_PATIENCE = 240


def with_requirements(names: tuple[str, ...]) -> set[str]:
    """Distributions and what they need, by name."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            wanted = [Requirement(text) for text in distribution(name).requires or ()]
            left += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def environment(folder: Path, *more: str) -> Path:
    """A virtual environment with what the package and ``more`` need and without the package; made of links."""
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    base = Path(sys.executable).resolve()
    (folder / "bin" / "python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    for name in with_requirements((*NEEDED, *more)):
        for file in distribution(name).files or ():
            top = packages / file.parts[0]
            if file.parts[0] not in ("..", "__pycache__") and not top.exists():
                top.symlink_to(Path(str(file.locate())).parents[len(file.parts) - 1] / file.parts[0])
    return folder


def archive(environment: Path, target: Path, *, with_package: bool) -> Path:
    """An environment packed as ``--archives`` takes it."""
    (packages,) = environment.glob("lib/*/site-packages")
    with tarfile.open(target, "w:gz") as packed:
        packed.add(environment, arcname=".")
        for name in OURS if with_package else ():
            packed.add(SOURCES / name, arcname=str((packages / name).relative_to(environment)))
    return target


def zipped_package(target: Path, *names: str, root: Path = SOURCES) -> Path:
    """This package, or others in ``root``, as ``--py-files`` takes it."""
    with zipfile.ZipFile(target, "w") as packed:
        for name in names or OURS:
            for file in sorted((root / name).rglob("*.py")):
                packed.write(file, file.relative_to(root))
    return target


class Standalone:
    """A master and two workers of one core each, on free ports of the loopback interface.

    They know nothing of this project: no path to it, no environment that has it.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        ensure_java()
        self._folder = folder
        address = ("--host", "127.0.0.1", "--webui-port", "0")
        master = stack.enter_context(SparkServer("Master", r"spark://\S+?:\d+", *address, "--port", "0"))
        self.master = master.said.result(_PATIENCE)
        size = ("--cores", "1", "--memory", "1g")
        workers = [
            SparkServer("Worker", "Successfully registered", *address, *size, "--work-dir", str(place), self.master)
            for place in (folder / "work0", folder / "work1")
        ]
        for worker in workers:
            stack.enter_context(worker)
        for worker in workers:
            worker.said.result(_PATIENCE)

    def submit(self, program: str, python: str, words: list[str], *arguments: str) -> None:
        """``spark-submit`` a program whose driver runs here, in a folder with an ``env``, and executors elsewhere.

        :param python: what both start, relative to where they are.
        :raises AssertionError: it failed; what it said last.
        """
        job, environment = self._folder / "job.py", self._folder / "env"
        job.write_text(program)
        if not environment.exists():
            environment.symlink_to(sys.prefix)
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": QUICK_JVM,
            "spark.executor.extraJavaOptions": QUICK_JVM,
            "spark.executor.memory": "600m",
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{_PATIENCE}s",
            "spark.python.authenticate.socketTimeout": "120s",
        }
        confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        done = subprocess.run(
            [tool("spark-submit"), "--master", self.master, *confs, *words, str(job), *arguments],
            env=os.environ
            | {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(SOURCES)},
            cwd=self._folder, capture_output=True, text=True, check=False, timeout=500,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


class SparkServer:
    """One of Spark's servers, until the block ends; ``said`` is the part of its log that tells it is up."""

    def __init__(self, kind: str, ready: str, *words: str) -> None:
        self.said: Future[str] = Future()
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
        self._process = subprocess.Popen(
            [tool("spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *words],
            env=clean | {"SPARK_DAEMON_JAVA_OPTS": QUICK_JVM, "SPARK_DAEMON_MEMORY": "512m"},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._reading = Thread(target=self._read, args=(kind, ready), daemon=True)
        self._reading.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._reading.join(60)

    def _read(self, kind: str, ready: str) -> None:
        log = ""
        for line in self._lines():
            log = (log + line)[-4000:]
            if not self.said.done() and (found := re.search(ready, line)):
                self.said.set_result(found[0])
        if not self.said.done():
            self.said.set_exception(AssertionError(f"{kind} ended before it was up:\n{log}"))

    def _lines(self) -> Iterator[str]:
        """All it says: a pipe nobody reads would stop it."""
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            yield from stderr


def tool(name: str) -> str:
    """One of Spark's commands; Python processes it starts are there soon."""
    return str((ensure_compiled_home() or Path(pyspark.__file__).parent) / "bin" / name)
