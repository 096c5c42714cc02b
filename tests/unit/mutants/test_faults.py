"""Faults: one slip on one line, the rest of the file byte for byte as it was."""

from __future__ import annotations

import ast
import random
import textwrap
from pathlib import Path

import pytest

from tests.mutants.faults import faults, one_per_line


def changed(source: str) -> set[str]:
    """The source with each of its faults, one line of a function left out."""
    return {fault.apply(source.encode()).decode() for fault in faults(source.encode())}


@pytest.mark.parametrize(
    ("line", "faulty"),
    [
        ("x = a < b", {"x = a <= b", "x = a >= b"}),
        ("x = a >= b", {"x = a > b", "x = a < b"}),
        ("x = a == b", {"x = a != b"}),
        ("x = a is not b", {"x = a is b"}),
        ("x = a in b", {"x = a not in b"}),
        ("x = a + b", {"x = (a - b)"}),
        ("x = a * b", {"x = (a // b)"}),
        ("x = a | b", {"x = (a & b)"}),
        ("x = a and b", {"x = a or b"}),
        ("x = not a", {"x = a"}),
        ("x = True", {"x = False"}),
        ("x = 7", {"x = 8", "x = 6"}),
        ("x = 1.5", {"x = 2.5", "x = 0.5"}),
        ("x = a if b else c", {"x = a", "x = c"}),
        ("x += a", {"pass", "x -= a"}),
        ("x.y = a", {"pass"}),
        ("x[a] = b", {"pass"}),
        ("del x[a]", {"pass"}),
        ("def f(): return False", {"def f(): return True"}),
        ("f(a)", {"pass"}),
        ("raise ValueError(7)", {"pass"}),
        ("if a: b = c", {"if True: b = c", "if False: b = c"}),
        ("while a: b = c", {"while False: b = c"}),
        ("for a in b: break", {"for a in b: continue"}),
        ("for a in b: continue", {"for a in b: break"}),
        ("def f(): return a", {"def f(): return None"}),
        ("def f(a=3): return", {"def f(a=4): return", "def f(a=2): return"}),
        ("def f(*, a=True): return", {"def f(*, a=False): return"}),
        ("x: int = 3", {"x: int = 4", "x: int = 2"}),
        ("x = [a for a in b if a < 3]", {f"x = [a for a in b if a {rest}]" for rest in ("<= 3", ">= 3", "< 4", "< 2")}),
        ("x = f(a, b=True)", {"x = f(a, b=False)"}),
    ],
)
def test_a_fault_is_what_a_slip_would_write(line: str, faulty: set[str]) -> None:
    assert changed(line) == faulty


def test_a_fault_knows_the_lines_of_what_it_replaces() -> None:
    source = b"x = (\n    a\n    if b\n    else c < d\n)\n"
    assert {(fault.text, fault.line, fault.last) for fault in faults(source)} == {
        ("a", 2, 4), ("c < d", 2, 4), ("c <= d", 4, 4), ("c >= d", 4, 4),
    }  # fmt: skip


@pytest.mark.parametrize(
    "source",
    [
        "x = a.b",
        "'''A docstring.'''",
        "import a",
        "assert a < 3",
        "_log.warning('%d', a + 1)",
        "x: int | None",
        "def f(a: int | str) -> int | None: pass",
        "@slots(a=True)\nclass A: pass",
        "class A(Struct, frozen=True): pass",
        "x = f'{a + 1} of {b}'",
        "x = 'a' + b",
        "x = zip(a, b, strict=True)",
        "if TYPE_CHECKING: import a",
        "def f(): return None",
        "def f(): return ''",
        "def f(a): del a",
        "'''Blocking.\n\nGenerated from ``a``.\n'''\nx = 3",
    ],
)
def test_what_no_test_should_notice_is_left_alone(source: str) -> None:
    assert changed(source) == set()


def test_places_are_counted_in_bytes_and_the_rest_of_the_file_stays() -> None:
    source = "# ä comment\ndef f(ü):\n    s = 'ö'; return ü < 1  # why\n"
    assert source.replace("ü < 1", "ü <= 1") in changed(source)


def test_a_statement_of_many_lines_becomes_one() -> None:
    source = "f(\n    a,\n)\ng(b)\n"
    assert changed(source) == {"pass\ng(b)\n", "f(\n    a,\n)\npass\n"}


def test_lines_that_only_an_import_runs_are_told_from_those_of_functions() -> None:
    source = b"x = 1\nclass A:\n    y = 2\n    def f(self, z=3):\n        return 4\n"
    imported = {(fault.line, fault.imported) for fault in faults(source)}
    assert imported == {(1, True), (3, True), (4, True), (5, False)}


@pytest.mark.parametrize(
    ("decorator", "is_kept"),
    [("cache", True), ("functools.cache", True), ("lru_cache(maxsize=8)", True), ("functools.lru_cache", True),
     ("cached_property", False), ("contextmanager", False)],
)  # fmt: skip
def test_what_is_cached_matters_to_more_than_the_first_who_asks_for_it(decorator: str, is_kept: bool) -> None:
    source = f"@{decorator}\ndef f(): return a + b\n".encode()
    assert {fault.imported for fault in faults(source)} == {is_kept}


def test_a_fault_knows_where_it_stands() -> None:
    source = b"x = not a\nclass A:\n    y = not a\n    def f(self):\n        def g():\n            return a\n"
    assert [fault.scope for fault in faults(source)] == ["", "A", "A.f.g"]


def test_a_line_has_one_fault_and_a_seed_repeats_it() -> None:
    source = b"x = a < 1\ny = 2\nz = a\n"
    chosen = one_per_line(faults(source), random.Random(3))
    assert [fault.line for fault in chosen] == [1, 2]
    assert chosen == one_per_line(faults(source), random.Random(3))
    assert len({tuple(one_per_line(faults(source), random.Random(seed))) for seed in range(50)}) > 2


def test_a_fault_is_shown_by_its_line() -> None:
    [fault] = faults(b"if a:\n    x = not b  # why\n")[2:]
    assert fault.lines(b"if a:\n    x = not b  # why\n") == ("x = not b  # why", "x = b  # why")


def test_every_fault_of_a_real_module_is_another_program() -> None:
    source = Path(textwrap.__file__).read_bytes()
    sound = ast.dump(ast.parse(source))
    for fault in random.Random(1).sample(faults(source), 25):
        assert ast.dump(ast.parse(fault.apply(source))) != sound, fault
