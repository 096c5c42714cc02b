"""Builds the programs of ``clients`` with the client libraries of registries, once per machine.

Each builder returns the command that runs the program. What is installed stays in the cache of the user, in a folder of
its own for every version of a library and of our sources.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

PROGRAMS = Path(__file__).with_name("clients")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rocketmq-py" / "foreign-clients"
BUILD_SECONDS = 1500.0
JVM = ["-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
       "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]  # fmt: skip

Builder = Callable[[str, str], list[str]]
"""Makes the command from the name of a package and its version."""


class BuildError(RuntimeError):
    """A tool failed; the text carries what it said."""


def run(args: Iterable[str], cwd: Path | None = None) -> None:
    done = subprocess.run(
        list(args),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise BuildError(f"{' '.join(args)}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def built(sources: Path | None, name: str, build: Callable[[Path], None]) -> Path:
    """A folder that ``build`` has filled, in this run or an earlier one with the same sources."""
    stamp = hashlib.sha256(name.encode())
    for file in sorted(sources.rglob("*")) if sources is not None else []:
        if file.is_file() and "target" not in file.parts and "__pycache__" not in file.parts:
            stamp.update(file.read_bytes())
    folder = CACHE / f"{name.replace('/', '-').replace(':', '-')}-{stamp.hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            build(folder)
            (folder / "complete").touch()
    return folder


def java(package: str, version: str) -> list[str]:
    """The program is compiled once, the libraries of each version are put beside it."""
    sources = PROGRAMS / "java"

    def maven(goal: str, folder: Path, *flags: str) -> None:
        run(["mvn", "-q", "-B", "-f", str(sources / "pom.xml"), "-Dstyle.color=never", f"-Dout={folder}", *flags, goal])

    program = built(sources, "java-program", lambda folder: maven("package", folder))
    libraries = built(
        sources / "pom.xml", f"java-{version}",
        lambda folder: maven("dependency:copy-dependencies", folder, f"-Dclient.version={version}"),
    )  # fmt: skip
    path = f"{program / 'foreign-client-1.jar'}:{libraries / f'lib-{version}'}/*"
    return [os.environ.get("JAVA", "java"), *JVM, "-cp", path, "foreign.Probe"]


def cpp(package: str, version: str) -> list[str]:
    """The C++ library as a distribution of Python carries it; another Python than ours would do as well."""
    folder = built(None, f"{package}-{version}", lambda folder: run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "packages"),
         f"{package}=={version}"]
    ))  # fmt: skip
    return ["env", f"PYTHONPATH={folder / 'packages'}", sys.executable, str(PROGRAMS / "cpp" / "probe.py")]


def node_modules(package: str, version: str) -> Path:
    """A folder with a package of npm and all it needs."""
    folder = built(None, f"{package}-{version}", lambda folder: run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder),
         f"{package}@{version}"]
    ))  # fmt: skip
    return folder / "node_modules"


def node(package: str, version: str) -> list[str]:
    return ["node", str(PROGRAMS / "node" / "probe.js"), str(node_modules(package, version) / package)]


def go(package: str, version: str) -> list[str]:
    return [str(go_program(PROGRAMS / "go"))]


def go_program(sources: Path) -> Path:
    """A program of Go, built; go downloads the client once."""
    folder = built(
        sources, f"go-{sources.name}", lambda folder: run(["go", "build", "-o", str(folder / "probe"), "."], sources)
    )
    return folder / "probe"


def rust(package: str, version: str) -> list[str]:
    sources = PROGRAMS / "rust" / package
    folder = built(sources, package, lambda folder: run(
        ["cargo", "build", "--quiet", "--locked", "--manifest-path", str(sources / "Cargo.toml"), "--target-dir",
         str(folder)]
    ))  # fmt: skip
    return [str(folder / "debug" / "probe")]
