"""A path made of any name is directly below the root, or the name is refused."""

from __future__ import annotations

import ntpath
import posixpath
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import example, given, strategies as st

from rocketmq_py.core.paths import MAX_BYTES, below, component_fault
from rocketmq_py.errors import ConfigError, NameIllegal

ROOT = Path("/store/consumequeue")
DANGEROUS = st.text(st.sampled_from("./\\:C~%|a \0\n\x85\u2028\ud800é"), max_size=12)


@given(st.one_of(st.text(max_size=300), DANGEROUS))
@example("a" * 256)
@example("é" * 128)
def test_a_path_is_directly_below_the_root_or_its_name_is_refused(name: str) -> None:
    try:
        path = below(ROOT, name)
    except NameIllegal:
        return
    assert path.parent == ROOT
    assert path.name == name
    assert posixpath.normpath(str(path)) == str(path)
    assert len(name.encode()) <= MAX_BYTES
    assert name.isprintable() or not any(ord(letter) < 32 or ord(letter) == 127 for letter in name)


@given(st.one_of(st.text(max_size=50), DANGEROUS))
def test_an_accepted_name_is_one_component_on_windows_too(name: str) -> None:
    if component_fault(name) is None:
        root = PureWindowsPath("D:/store")
        assert (root / name).parent == root
        assert ntpath.normpath(f"D:\\store\\{name.rstrip('. ')}").startswith("D:\\store\\")
        assert PurePosixPath("/store", name).parent == PurePosixPath("/store")


@given(st.text(st.sampled_from("%|abcXYZ019_-"), min_size=1, max_size=255))
@example("%RETRY%g")
@example("a|b")
@example("%")
def test_names_accepted_by_java_are_accepted(name: str) -> None:
    assert below(ROOT, name) == ROOT / name


@pytest.mark.parametrize("name", ["broker.a", "10.1.2.3@DEFAULT#77", "fe80::1@77", "Größe", "a b", ".hidden", "a..b"])
def test_other_names_of_one_component_are_accepted(name: str) -> None:
    assert below(ROOT, name) == ROOT / name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty"), (".", "dots"), ("..", "dots"), ("...", "dots"), (".. ", "dots"), (" ", "spaces"),
        ("/abs/path", "separator"), ("../../victim", "separator"), ("a/b", "separator"), ("a\\b", "separator"),
        ("\\\\server\\share", "separator"), ("C:", "drive"), ("c:x", "drive"), ("a\0b", "control"), ("a\nb", "control"),
        ("a\x7f", "control"), ("a\x85b", "control"), ("a\u2028b", "control"), ("\ud800", "UTF-8"),
        ("a" * 256, "256 bytes"), ("é" * 128, "256 bytes"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_reason(name: str, why: str) -> None:
    assert why in (component_fault(name) or "")
    with pytest.raises(ConfigError, match=why):
        below(ROOT, name)


def test_a_refusal_quotes_neither_line_ends_nor_long_names() -> None:
    with pytest.raises(NameIllegal) as refused:
        below(ROOT, "a\nb" + "x" * 100_000)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400
