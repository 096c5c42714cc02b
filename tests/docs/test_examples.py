"""Every Python example of the documents runs, from top to bottom, against a cluster of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.testing import Cluster
from tests.spark.standalone import QUICK_JVM

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[Path, list[tuple[int, str]]]]:
    """Documents with their Python blocks and the lines they start at."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text()
        blocks = [(text[: m.start(1)].count("\n"), m.group(1)) for m in _BLOCK.finditer(text)]
        if blocks:
            found.append((path, blocks))
    return found


def marked(pages: list[tuple[Path, list[tuple[int, str]]]]) -> list[Any]:
    """Those that start Spark run one after the other, beside the others."""
    return [
        pytest.param(*page, marks=[pytest.mark.spark] if "spark" in joined(page[1]).lower() else []) for page in pages
    ]


def joined(blocks: list[tuple[int, str]]) -> str:
    """The blocks of a document as one program, each at the lines it has there."""
    program = ""
    for line, source in blocks:
        program += "\n" * (line - program.count("\n")) + source
    return program


def _name(value: object) -> str:
    """The id of a page in the test's name; its blocks have none."""
    return value.relative_to(ROOT).as_posix() if isinstance(value, Path) else ""


SPARK_DEFAULTS = f"""
spark.driver.extraJavaOptions {QUICK_JVM}
spark.sql.shuffle.partitions 2
spark.ui.enabled false
spark.python.authenticate.socketTimeout 300s
"""
"""A page's session lives for seconds: with Spark's own defaults, 200 tasks start for each aggregation. A busy machine
starts Python slowly."""


def environment(page: Path, spark_settings: Path) -> dict[str, str]:
    """The environment of a page's program: pages for contributors import the chaos kit of the checkout."""
    spark_settings.mkdir()
    (spark_settings / "spark-defaults.conf").write_text(SPARK_DEFAULTS)
    paths = [str(ROOT)] if "chaoskit" in page.read_text() else []
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [*paths, os.environ.get("PYTHONPATH", "")])),
        "SPARK_CONF_DIR": str(spark_settings),
    }


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("path", "blocks"), marked(examples()), ids=_name)
def test_examples_of_the_pages_run(path: Path, blocks: list[tuple[int, str]], tmp_path: Path) -> None:
    """In a process of their own: an example that stops its Spark session would stop that of other tests."""
    with Cluster() as cluster:
        program = joined(blocks).replace("127.0.0.1:9876", cluster.namesrv)
        (tmp_path / path.name).write_text(program)
        done = subprocess.run(
            [sys.executable, path.name], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, env=environment(path, tmp_path / "spark"),
        )  # fmt: skip
    assert done.returncode == 0, done.stdout
