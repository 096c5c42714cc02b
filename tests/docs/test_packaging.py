"""The build hook: links of the README and the project's URLs come from the address of the repository."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("hatchling")

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REPOSITORY = "https://git.example/team/project"


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def metadata(hook: ModuleType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    hook.RepositoryMetadata(str(ROOT), {}).update(found)
    return found


def test_links_are_absolute_if_the_repository_address_is_known(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPO_URL", f"{REPOSITORY}/")
    monkeypatch.setenv("SITE_URL", "https://docs.example")
    made = metadata(hook)
    links = re.findall(r"\]\(([^)]+)\)", made["readme"]["text"])
    assert len(links) == len(re.findall(r"\]\(([^)]+)\)", README)) > 10
    assert all(link.startswith(f"{REPOSITORY}/blob/main/") for link in links)
    assert made["urls"]["Documentation"] == "https://docs.example"
    assert made["urls"]["Issues"] == f"{REPOSITORY}/issues"


def test_the_readme_is_unchanged_without_a_repository_address(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REPO_URL", raising=False)
    assert metadata(hook) == {"readme": {"content-type": "text/markdown", "text": README}}


def test_the_readme_fits_on_a_screen_or_two() -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert len(program.splitlines()) <= 30
    assert len(README.splitlines()) < 100
