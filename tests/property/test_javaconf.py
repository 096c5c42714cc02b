"""Any text written to a properties file is read back, and no file breaks the reader."""

from __future__ import annotations

from hypothesis import given, strategies as st

from rocketmq_py.core.java_config import escape_controls, read_properties, split_lines, write_properties

ODD = "\\ \t\n\r\f\v\0\x1c\x1d\x1e\x7f\x85\xa0\u2028\u2029\ufeff=:#!\U0001f600ab0u"
texts = st.text(max_size=12) | st.text(alphabet=ODD, max_size=12)
tables = st.dictionaries(texts, texts, max_size=4)


@given(tables, texts)
def test_every_value_is_read_as_it_was_written(table: dict[str, str], before: str) -> None:
    text = write_properties(before, table)
    found = read_properties(split_lines(text), strict=False)
    assert {key: found[key] for key in table} == table
    kept = read_properties(split_lines(before), strict=False)
    assert found == kept | table


@given(tables)
def test_a_file_is_ascii_with_a_line_for_each_setting(table: dict[str, str]) -> None:
    text = write_properties("", table)
    assert text.isascii()
    assert len(text.splitlines()) == len(table)
    assert read_properties(text.splitlines(), strict=False) == table


@given(st.dictionaries(texts, texts, max_size=3), st.dictionaries(texts, texts, max_size=3))
def test_changes_replace_existing_settings(first: dict[str, str], second: dict[str, str]) -> None:
    text = write_properties(write_properties("", first), second)
    assert read_properties(split_lines(text), strict=False) == first | second


@given(texts)
def test_shown_settings_are_one_line(text: str) -> None:
    assert len(escape_controls(text).splitlines()) <= 1
