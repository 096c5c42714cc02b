"""MkDocs hooks: pages made from files of the repository, and a check that no page loads anything from another host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
COPIED = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "spark/examples.md",
}
"""Files of the repository, and the pages of the site they become."""

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<target>(?![a-z]+:|#)[^)\s]+)\)")
_EXTERNAL = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|icon))[^>]*\bhref=["']?(?:https?:)?//[^>]*>"""
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are copies of files outside of ``docs``."""
    for source, page in COPIED.items():
        text = relink((ROOT / source).read_text(encoding="utf-8"), Path(source), Path(page), config.extra["repo_url"])
        files.append(File.generated(config, page, content=text))
    return files


def on_post_page(output: str, page: Any, config: MkDocsConfig) -> str:
    """Fail when a page would load a script, a style sheet or an image from another host."""
    del config
    if found := _EXTERNAL.search(output):
        raise PluginError(f"{page.file.src_uri} loads {found[0]} from another host")
    return output


def relink(text: str, source: Path, page: Path, repo_url: str) -> str:
    """Rewrite relative links of ``source`` so that they work on ``page``.

    A link into ``docs`` or to another copied file becomes a link within the site. A link to any other file becomes a
    link to the repository where ``repo_url`` is known, and plain text otherwise.
    """

    def replace(match: re.Match[str]) -> str:
        path, hash_, anchor = match["target"].partition("#")
        target = (ROOT / source.parent / path).resolve().relative_to(ROOT).as_posix()
        inside = COPIED.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
        if inside is not None:
            up = "../" * (len(page.parts) - 1)
            return f"[{match['text']}]({up}{inside}{hash_}{anchor})"
        if repo_url:
            return f"[{match['text']}]({repo_url}/blob/main/{target}{hash_}{anchor})"
        return match["text"]

    return _LINK.sub(replace, text)
