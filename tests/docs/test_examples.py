"""Every Python example of the documents runs, from top to bottom, against a cluster of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketmq_py.testing import Cluster

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
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


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("path", "blocks"), examples(), ids=lambda v: v.name if isinstance(v, Path) else "")
def test_the_examples_run(path: Path, blocks: list[tuple[int, str]], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    with Cluster() as cluster:
        for line, source in blocks:
            here = source.replace("127.0.0.1:9876", cluster.namesrv)
            code = compile("\n" * line + here, str(path), "exec")
            exec(code, names)
