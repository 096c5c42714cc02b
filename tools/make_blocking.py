"""Generate the blocking classes from the asyncio ones, with the same methods, options and docstrings.

``python tools/make_blocking.py`` writes the files of ``FACADES`` and ``OPTIONS``; with ``--check`` it writes nothing
and fails if one of them differs. For each public method of the asyncio class and its bases the blocking class gets one
with the same parameters and docstring, which runs the asyncio method in the portal's loop. Methods that do not use the
loop are written by hand in a base class: if that has ``_blocking_send``, the generated ``send`` calls it.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ruff import find_ruff_bin

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "rocketmq_py"

_MOST_PARAMETERS = 9
"""A function with more parameters needs a ``noqa`` comment for the linter."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Name(NamedTuple):
    """A class of the package: its module below ``rocketmq_py``, and its name."""

    module: str
    name: str

    @property
    def path(self) -> Path:
        return PACKAGE / f"{self.module.replace('.', '/')}.py"


@dataclass(frozen=True, kw_only=True)
class Facade:
    """A blocking class to generate.

    :ivar module: module to write, below ``rocketmq_py``.
    :ivar source: the asyncio class.
    :ivar base: the base class of the generated class, which is written by hand.
    :ivar until: a base of the asyncio class whose members are not generated, because ``base`` has them.
    :ivar intro: the docstring of the module.
    :ivar without: public members of the asyncio class that are not generated, because only the package uses them.
    :ivar note: a paragraph that is appended to the docstring of the class.
    :ivar made: the expression that creates the asyncio object; ``{}`` stands for its constructor call.
    :ivar in_loop: True to call plain methods and properties in the loop's thread, too.
    """

    module: str
    source: Name
    base: Name
    until: str | None = None
    intro: str
    without: frozenset[str] = frozenset()
    note: str = ""
    made: str = "{}"
    in_loop: bool = False


@dataclass(frozen=True, kw_only=True)
class Options:
    """A ``TypedDict`` of options to generate, for ``**options: Unpack[...]``.

    :ivar source: the class with the options: the keyword parameters of its constructor; its fields if it has none.
    """

    module: str
    name: str
    source: Name
    doc: str
    without: frozenset[str] = frozenset()
    base: Name | None = None


_FORKS = "In a forked child every call raises ForkedError; make an object of its own there."
_WAITS = f"Every call can be interrupted (Ctrl-C).\n{_FORKS}"

_OF_GROUP_MEMBERS = frozenset(
    {
        "client_id", "consume_directly", "consume_offsets", "group", "heartbeat", "on_ids_changed", "persist_offsets",
        "reset_offsets", "running_info", "stacks", "topics",
    }
)  # fmt: skip
"""Members of asyncio consumers that the client instance and requests of brokers use; ``BlockingMember`` has two."""


def _consumer(room: str, name: str, base: str, what: str, *, without: frozenset[str] = frozenset()) -> Facade:
    return Facade(
        module=f"client.consumer.{room}.blocking",
        source=Name(f"client.consumer.{room}.consumer", name),
        base=Name(f"client.consumer.{room}.threads", base),
        intro=f"The {what} consumer for programs without an event loop: the same methods as asyncio's.",
        without=_OF_GROUP_MEMBERS | without,
        note=_WAITS,
        made="self._make(lambda: {})",
        in_loop=True,
    )


FACADES = (
    _consumer("push", "PushConsumer", "PushMember", "push", without=frozenset({"is_listener_thread"})),
    _consumer(
        "lite_pull",
        "LitePullConsumer",
        "LitePullMember",
        "lite pull",
        without=frozenset({"fill_handoff", "fill_handoff_or_end", "handoff"}),
    ),
    _consumer("pull", "PullConsumer", "BlockingPullMember", "older pull"),
    _consumer("simple", "SimpleConsumer", "SimpleMember", "simple", without=frozenset({"next"})),
    Facade(
        module="client.admin.blocking",
        source=Name("client.admin.admin", "Admin"),
        base=Name("client.facade", "BlockingFacade"),
        intro="Administration for programs without an event loop: the same methods as asyncio's, calls that wait.",
        note=_WAITS,
    ),
    Facade(
        module="client.producer.blocking",
        source=Name("client.producer.producer", "Producer"),
        base=Name("client.producer.direct", "DirectProducer"),
        intro="The producer for programs without an event loop: the same methods as asyncio's, calls that wait.",
        without=frozenset({"heartbeat", "on_ids_changed", "sender", "topics"}),
        note=_WAITS,
    ),
    Facade(
        module="client.producer.blocking_transaction",
        source=Name("client.producer.transaction_producer", "TransactionProducer"),
        base=Name("client.producer.direct_transaction", "DirectTransactionProducer"),
        until="Producer",
        intro="The transaction producer for programs without an event loop: the same methods as asyncio's.",
        without=frozenset(
            {
                "address_of",
                "check_requested",
                "end_header",
                "is_known_to",
                "register_with_brokers",
                "require_address",
                "require_listener",
                "send_end",
                "send_half",
                "start",
                "close",
                "topics",
            }
        ),
        note=_WAITS,
    ),
)


def _settings(room: str, module: str, kind: str) -> Options:
    return Options(
        module=f"client.consumer.{room}.settings",
        name=f"{kind}Settings",
        source=Name(module, f"{kind}Options"),
        doc=f"The fields of ``{kind}Options`` and the client's settings.",
        base=Name("client.client_instance", "ClientSettings"),
    )


OPTIONS = (
    Options(
        module="client.producer.options",
        name="ProducerOptions",
        source=Name("client.producer.producer", "Producer"),
        doc="Options of every producer; see :class:`rocketmq_py.Producer`.",
        without=frozenset({"instance", "topics"}),
    ),
    _settings("push", "client.consumer.options", "Push"),
    _settings("lite_pull", "client.consumer.lite_pull.options", "LitePull"),
    _settings("pull", "client.consumer.pull.options", "Pull"),
    _settings("simple", "client.consumer.simple.options", "Simple"),
)


# -- reading


class Module:
    """A parsed module: its classes, what it imports, and its constants."""

    def __init__(self, module: str) -> None:
        self.name = module
        self.tree = ast.parse(Name(module, "").path.read_text(encoding="utf-8"))
        self.imports: dict[str, str] = {}
        self.constants: dict[str, ast.expr] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        for node in self.tree.body:
            self._note(node)

    def _note(self, node: ast.stmt) -> None:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias in node.names:
                name = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
                self.imports[alias.asname or alias.name] = f"from {node.module} import {name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                self.imports[alias.asname or alias.name] = f"import {alias.name}"
        elif isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            self.constants[node.targets[0].id] = node.value

    def line_for(self, name: str) -> str | None:
        """Return the import statement with which another module gets ``name``, as known here; None if it is unknown."""
        if name in self.imports:
            return self.imports[name]
        if name in self.classes or name in self.constants:
            return f"from rocketmq_py.{self.name} import {name}"
        return None


class Member(NamedTuple):
    """A method or property, and the module that has the names in its annotations."""

    node: Function
    module: Module


@dataclass
class Source:
    """A class and its bases inside the package; ``chain`` has the most basic one first.

    :param until: name of a base that is left out, with its own bases.
    """

    name: Name
    until: str | None = None
    chain: list[tuple[Module, ast.ClassDef]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._climb(self.name)

    def _climb(self, name: Name) -> None:
        module = Module(name.module)
        node = module.classes[name.name]
        for base in node.bases:
            found = module.imports.get(base.id, "") if isinstance(base, ast.Name) else ""
            match = re.fullmatch(r"from rocketmq_py\.(\S+) import (\w+)", found)
            if match and match[2] != self.until:
                self._climb(Name(match[1], match[2]))
            elif isinstance(base, ast.Name) and base.id in module.classes:
                self._climb(Name(name.module, base.id))
        self.chain.append((module, node))

    def members(self) -> Iterator[Member]:
        """Iterate over public methods and properties: in the order of first definition, each as overridden last."""
        found: dict[str, Member] = {}
        for module, node in self.chain:
            for member in node.body:
                if isinstance(member, Function) and not member.name.startswith("_"):
                    found[member.name] = Member(member, module)
        return iter(found.values())

    def constructor(self) -> Member:
        """Return the ``__init__`` of the class, or of its nearest base that has one.

        :raises LookupError: there is none.
        """
        for module, node in reversed(self.chain):
            for member in node.body:
                if isinstance(member, Function) and member.name == "__init__":
                    return Member(member, module)
        raise LookupError(f"{self.name} has no constructor")

    def doc(self) -> str:
        """The docstring of the class itself."""
        return ast.get_docstring(self.chain[-1][1]) or ""


def hand_written(name: Name) -> set[str]:
    """Return the names of the methods that a class written by hand defines itself."""
    return {node.name for node in Module(name.module).classes[name.name].body if isinstance(node, Function)}


# -- writing

_INSTANCE = "instance"
"""The parameter that takes a client instance: ``ClientInstance``, of which there is an asyncio and a blocking class."""


def blocking_doc(text: str) -> str:
    """Convert a docstring of the asyncio class for the blocking one: without ``async``, ``await`` and ``aio``."""
    text = text.replace("``async with ", "``with ").replace("``await ", "``")
    return text.replace("rocketmq_py.aio.", "rocketmq_py.")


def quoted(text: str, indent: str) -> str:
    """Return the source of a docstring, indented and in triple quotes."""
    body = "\n".join(f"{indent}{line}" if line else "" for line in text.splitlines()).lstrip()
    end = f"\n{indent}" if "\n" in body else ""
    raw = "r" if "\\" in body else ""
    return f'{indent}{raw}"""{body}{end}"""'


def filled(call: str, indent: str) -> str:
    """Break a call into indented lines of at most 120 characters."""
    return textwrap.fill(
        call, 120, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


class Writer:
    """Writes one facade."""

    def __init__(self, facade: Facade) -> None:
        self._facade = facade
        self._source = Source(facade.source, facade.until)
        self._by_hand = hand_written(facade.base)
        self._imports = {
            f"from rocketmq_py.{facade.source.module} import {facade.source.name} as AioSource",
            f"from rocketmq_py.{facade.base.module} import {facade.base.name}",
        }

    def text(self) -> str:
        """Return the source of the module, not formatted yet."""
        members = [self._member(member) for member in self._source.members() if self._is_wanted(member.node.name)]
        body = "\n\n".join([self._head(), self._constructor(), *members])
        imports = "\n".join(sorted(self._imports))
        return f"{head(self._facade.intro, self._facade.source)}\n{imports}\n\n\n{body}\n"

    def _is_wanted(self, name: str) -> bool:
        return name not in self._facade.without and name not in self._by_hand

    def _head(self) -> str:
        facade = self._facade
        doc = blocking_doc(self._source.doc()) + (f"\n\n{facade.note}" if facade.note else "")
        base = facade.base.name
        if facade.base.name == "BlockingFacade":
            base += "[AioSource]"
        return f"class {facade.source.name}({base}):\n{quoted(doc, '    ')}\n"

    def _constructor(self) -> str:
        member = self._source.constructor()
        arguments = self._parameters(member)
        made = self._facade.made.format(f"AioSource({call_of(arguments)})")
        many = len(arguments.args) + len(arguments.kwonlyargs) > _MOST_PARAMETERS
        comment = "  # noqa: PLR0913 - options by keyword" if many else ""
        call = (
            f"        self._wrap(\n{filled(made, ' ' * 12)}\n        )  # fmt: skip"
            if many
            else f"        self._wrap({made})"
        )
        return f"    def __init__({comment}\n        {ast.unparse(arguments)}\n    ) -> None:\n{call}\n"

    def _member(self, member: Member) -> str:
        node = member.node
        lines = []
        arguments = self._parameters(member)
        returns = self._returns(member)
        if is_property(node):
            lines.append("    @property")
        lines.append(f"    def {node.name}({ast.unparse(arguments)}) -> {returns}:")
        lines.append(quoted(blocking_doc(ast.get_docstring(node) or ""), "        "))
        lines.append(f"        {self._body(node, call_of(arguments), returns)}")
        return "\n".join(lines) + "\n"

    def _body(self, node: Function, arguments: str, returns: str) -> str:
        result = "" if returns == "None" else "return "
        if f"_blocking_{node.name}" in self._by_hand:
            return f"{result}self._blocking_{node.name}({arguments})"
        if is_property(node):
            return (
                f"return self._call(lambda: self._aio.{node.name})"
                if self._facade.in_loop
                else (f"return self._aio.{node.name}")
            )
        call = f"self._aio.{node.name}({arguments})"
        if returns.startswith("Iterator["):
            return f"return self._iterate({call})"
        if isinstance(node, ast.AsyncFunctionDef):
            return f"{result}self._run({call})"
        if not self._facade.in_loop:
            return f"{result}{call}"
        return f"{result}self._call({f'lambda: {call}' if arguments else call.removesuffix('()')})"

    def _parameters(self, member: Member) -> ast.arguments:
        """Return the parameters, with values instead of private constants, and the blocking client instance class."""
        arguments = member.node.args
        arguments.kw_defaults = [inlined(default, member.module) for default in arguments.kw_defaults]
        arguments.defaults = [inlined(default, member.module) or default for default in arguments.defaults]
        shared = [arg for arg in arguments.kwonlyargs if arg.arg == _INSTANCE]
        for arg in shared:
            arg.annotation = None
        self._need(arguments, member.module)
        for arg in shared:
            arg.annotation = ast.parse("ClientInstance | None", mode="eval").body
            self._imports.add("from rocketmq_py.client.blocking_instance import ClientInstance, aio_instance")
        return arguments

    def _returns(self, member: Member) -> str:
        node = member.node.returns
        if node is None:
            return "None"
        self._need(node, member.module)
        text = ast.unparse(node)
        for given, blocking in (("AsyncIterator[", "Iterator["), ("asyncio.Future[", "Future[")):
            if text.startswith(given):
                text = text.replace(given, blocking, 1)
                home = "collections.abc" if blocking.startswith("Iterator") else "concurrent.futures"
                self._imports.add(f"from {home} import {blocking[:-1]}")
        return text

    def _need(self, node: ast.AST, module: Module) -> None:
        for used in ast.walk(node):
            if isinstance(used, ast.Name) and (line := module.line_for(used.id)):
                self._imports.add(line)


def is_property(node: Function) -> bool:
    """True for a method with the decorator ``property``."""
    return any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)


def inlined(default: ast.expr | None, module: Module) -> ast.expr | None:
    """Return a default; if it is the name of a private constant, the value of that."""
    if isinstance(default, ast.Name) and default.id.startswith("_"):
        return module.constants[default.id]
    return default


def call_of(arguments: ast.arguments) -> str:
    """Return the source of the arguments that pass on all parameters."""
    given = [arg.arg for arg in arguments.args if arg.arg != "self"]
    given += [
        f"{arg.arg}=aio_instance({arg.arg})" if arg.arg == _INSTANCE else f"{arg.arg}={arg.arg}"
        for arg in arguments.kwonlyargs
    ]
    if arguments.kwarg:
        given.append(f"**{arguments.kwarg.arg}")
    return ", ".join(given)


def head(intro: str, source: Name) -> str:
    """Return the begin of a generated module: its docstring and the ``__future__`` import."""
    origin = f"rocketmq_py.{source.module}"
    return (
        f'"""{intro}\n\nGenerated from ``{origin}``\nby ``tools/make_blocking.py``: change that and run it.\n"""\n\n'
        "from __future__ import annotations\n"
    )


def options_text(options: Options) -> str:
    """Return the source of a module with a ``TypedDict``, not formatted yet."""
    fields: list[tuple[str, ast.expr]] = []
    imports = {"from typing import TypedDict"}
    for module, node in Source(options.source).chain:
        for name, annotation in fields_of(node, options):
            fields.append((name, annotation))
            imports.update(
                line
                for used in ast.walk(annotation)
                if isinstance(used, ast.Name) and (line := module.line_for(used.id))
            )
    base = "TypedDict"
    if options.base is not None:
        base = options.base.name
        imports.add(f"from rocketmq_py.{options.base.module} import {base}")
    lines = [f"    {name}: {ast.unparse(annotation)}" for name, annotation in fields]
    intro = f"Options by keyword, for type checkers: {options.name}."
    return (
        f"{head(intro, options.source)}\n" + "\n".join(sorted(imports)) + f"\n\n\nclass {options.name}({base}, "
        f"total=False):\n{quoted(options.doc, '    ')}\n\n" + "\n".join(lines) + "\n"
    )


def fields_of(node: ast.ClassDef, options: Options) -> Iterator[tuple[str, ast.expr]]:
    """Iterate over names and annotations of the keyword parameters of a constructor; without one, of the fields."""
    constructors = [each for each in node.body if isinstance(each, Function) and each.name == "__init__"]
    if constructors:
        for arg in constructors[0].args.kwonlyargs:
            if arg.arg not in options.without and arg.annotation is not None:
                yield arg.arg, arg.annotation
        return
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id, each.annotation


# -- running


def formatted(text: str, path: Path) -> str:
    """Sort the imports, remove unused ones, and format the source, with this project's settings of ruff."""
    for command in (["check", "--select", "I001,F401", "--fix", "--quiet"], ["format", "--quiet"]):
        command = [find_ruff_bin(), *command, "--stdin-filename", str(path), "-"]  # noqa: PLW2901
        text = subprocess.run(  # noqa: S603 - the linter of this project
            command, input=text, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
    return text


def generated() -> Iterator[tuple[Path, str]]:
    """Iterate over the generated files: path and expected content."""
    for options in OPTIONS:
        path = Name(options.module, "").path
        yield path, formatted(options_text(options), path)
    for facade in FACADES:
        path = Name(facade.module, "").path
        yield path, formatted(Writer(facade).text(), path)


def stale() -> list[Path]:
    """Return the generated files that are missing or differ from their expected content."""
    return [path for path, text in generated() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main() -> int:
    """Write the files, or with ``--check`` compare them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    if parser.parse_args().check:
        outdated = stale()
        for path in outdated:
            print(f"{path.relative_to(ROOT)} is out of date: run python tools/make_blocking.py", file=sys.stderr)
        return 1 if outdated else 0
    for path, text in generated():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
