"""Check that both packages and the changelog have the same version: ``python tools/versions.py [--notes] VERSION``.

With ``--notes`` it prints the section of the changelog for that version, which is the text of the release.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main_version() -> str:
    """Version of ``rocketmq-py``, read from its ``__init__.py``."""
    found = re.search(
        r'^__version__ = "(.+)"$', (ROOT / "src/rocketmq_py/__init__.py").read_text("utf-8"), re.MULTILINE
    )
    assert found is not None, "src/rocketmq_py/__init__.py has no __version__"
    return found[1]


def native_version() -> str:
    """Version of ``rocketmq-py-native``, read from its ``pyproject.toml``."""
    return str(tomllib.loads((ROOT / "native/pyproject.toml").read_text("utf-8"))["project"]["version"])


def extra_version() -> str:
    """Version of ``rocketmq-py-native`` that the extra ``native`` requires."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    return str(extras["native"][0]).partition("==")[2]


def notes(version: str) -> str | None:
    """Text of the changelog's section for ``version``, without heading; None if there is no such section."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"^## \[{re.escape(version)}\].*\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    return found and found[1].strip()


def faults(version: str) -> list[str]:
    """Return error texts for everything that contradicts a release of ``version``."""
    found = {"rocketmq-py": main_version(), "rocketmq-py-native": native_version(), "the extra native": extra_version()}
    wrong = [f"{name} has version {its}, not {version}" for name, its in found.items() if its != version]
    if not notes(version):
        wrong.append(f"CHANGELOG.md has no section [{version}]")
    return wrong


def main(words: list[str]) -> int:
    """Print the errors, or with ``--notes`` the text of the release if there are none; return the exit status."""
    version = words[-1]
    if wrong := faults(version):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    if "--notes" in words:
        print(notes(version))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
