"""The documentation site: every page is in the navigation, and links work in the repository as well."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TOP = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?![a-z]+:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """Anchors of a page, as both GitHub and the site make them from headings."""
    headings = _HEADING.findall(_FENCE.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def leads_somewhere(page: Path, path: str, anchor: str | None) -> bool:
    """Whether a relative link of a page leads to a file, and to a heading if it names one."""
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (anchor is None or anchor in anchors(target))


@pytest.mark.parametrize("path", PAGES + TOP, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_have_targets(path: Path) -> None:
    links = _LINK.finditer(_FENCE.sub("", path.read_text(encoding="utf-8")))
    broken = [match[0] for match in links if not leads_somewhere(path, match["path"], match["anchor"])]
    assert not broken


def test_every_page_is_in_the_navigation() -> None:
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", (DOCS / "index.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    listed = re.findall(r"^(?:.*<)?([a-z][\w/-]+)>?$", "\n".join(trees), re.MULTILINE)
    there = [page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES if page.parent != DOCS / "adr"]
    assert sorted(listed) == sorted({*there, "adr/index"} - {"index"})


def test_the_index_of_decisions_lists_every_one() -> None:
    linked = re.findall(r"\((\d{4}-[a-z0-9-]+\.md)\)", (DOCS / "adr" / "index.md").read_text(encoding="utf-8"))
    assert linked == sorted(page.name for page in (DOCS / "adr").glob("[0-9]*.md"))


@pytest.mark.parametrize("path", sorted((DOCS / "adr").glob("[0-9]*.md")), ids=lambda path: path.name)
def test_a_decision_has_context_decision_and_cost(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(rf"# {int(path.name[:4])}\. \S", text)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Cost"]


def test_both_packages_have_one_version() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "versions.py")]
    done = subprocess.run([*tool, "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    versions = re.findall(r"has version (\S+),", done.stderr)
    assert len(versions) == 3
    assert len(set(versions)) == 1
