"""Sphinx configuration of the documentation: ``make docs`` builds it into ``site/`` with warnings as errors.

The build needs no network, and no page loads anything from another host. REPO_URL, where it is set, is the address of
the repository, which links to source files then lead to.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.errors import ExtensionError

import rocketmq_py

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
REPO_URL = os.environ.get("REPO_URL", "").rstrip("/")

project = "RocketMQ for Python and Spark"
version = release = rocketmq_py.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
nitpicky = False  # docstrings name internal types, which have no page

html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"source_view_link": f"{REPO_URL}/blob/main/docs/{{filename}}"} if REPO_URL else {}

myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
suppress_warnings = ["misc.highlighting_failure"]  # examples abbreviate JSON with an ellipsis

autodoc_default_options = {"members": True, "inherited-members": "Exception,Struct,tuple,int,str,Enum"}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True

_COPY = re.compile(r"<!-- copy of (?P<path>\S+) -->")
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<target>(?![a-z]+:|#)[^)\s#]+)(?P<anchor>#[^)\s]+)?\)")
_FIELD = re.compile(r"^:(?:param|raises|returns?)\b")
_NEXT_FIELD = re.compile(r" (?=:(?:param \w+|raises [\w.]+|returns?):)")
_EXTERNAL = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|icon))[^>]*\bhref=["']?(?:https?:)?//[^>]*>"""
)


def copies() -> dict[str, str]:
    """Files of the repository, and the pages that show them: those with a mark ``<!-- copy of FILE -->``."""
    found = {}
    for page in (ROOT / "docs").rglob("*.md"):
        if mark := _COPY.search(page.read_text(encoding="utf-8")):
            found[(page.parent / mark["path"]).resolve().relative_to(ROOT).as_posix()] = page.relative_to(
                ROOT
            ).as_posix()
    return found


COPIES = copies()


def show_copy(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace a page that has the mark by the file it names, and make the links of that file work on the page."""
    if mark := _COPY.search(source[0]):
        page = Path(app.env.doc2path(docname)).resolve()
        file = (page.parent / mark["path"]).resolve()
        source[0] = relink(file.read_text(encoding="utf-8"), file, page)


def relink(text: str, file: Path, page: Path) -> str:
    """Rewrite relative links of ``file`` so that they work on ``page``.

    A link to a page, or to a file that is shown on one, leads to that page. A link to any other file leads to the
    repository if its address is known, and is plain text otherwise.
    """

    def replace(match: re.Match[str]) -> str:
        target = (file.parent / match["target"]).resolve().relative_to(ROOT).as_posix()
        target = COPIES.get(target, target)
        anchor = match["anchor"] or ""
        if target.startswith("docs/"):
            return f"[{match['text']}]({os.path.relpath(ROOT / target, page.parent)}{anchor})"
        return f"[{match['text']}]({REPO_URL}/blob/main/{target}{anchor})" if REPO_URL else match["text"]

    return _LINK.sub(replace, text)


def separate_fields(_app: Sphinx, _what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Give every field of a docstring (``:param``, ``:raises``) lines of its own, with its continuation indented.

    Docstrings write several short fields in one paragraph, which docutils does not take for fields.
    """
    found, inside = [], False
    for line in lines:
        for part in _NEXT_FIELD.split(line) if inside or _FIELD.match(line) else [line]:
            starts = bool(_FIELD.match(part))
            inside = starts or (inside and bool(part.strip()))
            found.append(part if starts or not inside or part.startswith(" ") else f"    {part}")
    lines[:] = found


def refuse_external(app: Sphinx, exception: Exception | None) -> None:
    """Fail if a page would load a script, a style sheet or an image from another host."""
    for page in Path(app.outdir).rglob("*.html") if exception is None else ():
        if found := _EXTERNAL.search(page.read_text(encoding="utf-8")):
            raise ExtensionError(f"{page.relative_to(app.outdir)} loads {found[0]} from another host")


def setup(app: Sphinx) -> None:
    """Register the hooks."""
    app.connect("source-read", show_copy)
    app.connect("autodoc-process-docstring", separate_fields)
    app.connect("build-finished", refuse_external)
