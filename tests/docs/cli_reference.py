"""Makes the reference in docs/reference/cli.md from the commands: ``python -m tests.docs.cli_reference [--check]``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from rocketmq_py.cli import main
from rocketmq_py.cli.root import VERBS

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
MARK = re.compile(r"^<!-- What follows is made .*-->\n", re.MULTILINE)

_CLUSTER = {"namesrv", "context", "addresses", "timeout"}
_SECURITY = {"tls", "tls_ca", "tls_cert", "tls_key", "tls_insecure", "access_key"}


def expected(text: str) -> str:
    """The document with a fresh reference."""
    mark = MARK.search(text)
    assert mark is not None, "the mark of the reference is gone"
    return text[: mark.end()] + "\n" + "\n".join(_reference())


def _reference() -> Iterator[str]:
    root = click.Context(main, info_name="rocketmq")
    for name in sorted(VERBS):
        command = main.get_command(root, name)
        assert command is not None
        yield from _verb(click.Context(command, parent=root, info_name=name), "###")


def _verb(ctx: click.Context, heading: str) -> Iterator[str]:
    command = ctx.command
    names = {param.name for param in command.params}
    common = {"output"} | (_CLUSTER | _SECURITY if names >= _CLUSTER else set())
    shown = [param for param in command.params if isinstance(param, click.Option) and param.name not in common]
    marks = ("°" if names >= _CLUSTER else "") + ("ª" if "output" in names else "")
    arguments = " ".join(p.make_metavar(ctx) for p in command.params if isinstance(p, click.Argument))
    yield f"{heading} `{' '.join(filter(None, (ctx.command_path, arguments)))}`{' ' if marks else ''}{marks}\n"
    yield _paragraphs(command.help or "") + "\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            sub = command.get_command(ctx, name)
            assert sub is not None
            yield from _verb(click.Context(sub, parent=ctx, info_name=name), heading + "#")
        return
    for option in shown:
        left, right = option.get_help_record(ctx) or ("", "")
        yield f"- `{left}`: {right}"
    if shown:
        yield ""


def _paragraphs(text: str) -> str:
    """Help as Markdown: click's mark for lines that are kept makes a block."""
    return "\n\n".join(map(_paragraph, inspect.cleandoc(text).split("\n\n")))


def _paragraph(text: str) -> str:
    kept = text.removeprefix("\b\n")
    return " ".join(text.split("\n")) if kept == text else f"```text\n{kept}\n```"


if __name__ == "__main__":
    made = expected(DOCUMENT.read_text(encoding="utf-8"))
    if "--check" not in sys.argv:
        DOCUMENT.write_text(made, encoding="utf-8")
    elif made != DOCUMENT.read_text(encoding="utf-8"):
        sys.exit(f"{DOCUMENT} is out of date: python -m tests.docs.cli_reference")
