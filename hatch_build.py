"""Build hook: the project's URLs, and the README with absolute links, from the address of the repository.

A package index shows the README outside of the repository, where relative links lead nowhere. The source does not
contain the address: the environment variable REPO_URL names it, and the release workflow sets it. Without it the README
stays as it is and the package has no URLs. A build from an sdist takes the metadata of the sdist.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:|#)(?P<target>[^)\s]+)\)")


def absolute_links(text: str, repo_url: str) -> str:
    """``text`` with every relative link made absolute: files of the repository on its main branch."""
    return RELATIVE_LINK.sub(rf"]({repo_url}/blob/main/\g<target>)", text)


def urls(repo_url: str) -> dict[str, str]:
    """The project's URLs, as the package index shows them."""
    files = {"Documentation": "docs/index.md", "Changelog": "CHANGELOG.md"}
    found = {"Homepage": repo_url, "Repository": repo_url, "Issues": f"{repo_url}/issues"}
    return found | {name: f"{repo_url}/blob/main/{path}" for name, path in files.items()}


class RepositoryMetadata(MetadataHookInterface):
    """Fills in ``readme`` and ``urls`` of the project."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        repo_url = os.environ.get("REPO_URL", "").rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        if repo_url:
            text = absolute_links(text, repo_url)
            site = os.environ.get("SITE_URL", "").rstrip("/")
            metadata["urls"] = urls(repo_url) | ({"Documentation": site} if site else {})
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
