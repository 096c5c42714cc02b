"""Bodies as text: whole, or said to be cut."""

import pytest

from rocketmq_py.console.bodies import HEX, JSON, TEXT, hex_dump, preview, preview_of_text, show


def test_json_is_laid_out_with_its_numbers_and_keys_as_they_were():
    shown = show(b'{"a":1.10,"a":[1e400,{}],"b":"<b>"}')
    assert (shown.decoder, shown.is_cut) == (JSON, False)
    assert shown.text == '{\n  "a": 1.10,\n  "a": [\n    1e400,\n    {}\n  ],\n  "b": "<b>"\n}'


def test_a_body_that_is_cut_says_so_and_ends_at_a_character():
    shown = show("ä".encode() * 10, limit=5)
    assert (shown.text, shown.shown, shown.size, shown.is_cut) == ("ää", 4, 20, True)
    assert show(b'{"a":1}', limit=3).decoder == TEXT, "JSON that is cut is not laid out"


def test_bytes_are_a_dump():
    shown = show(b"\x00\xffA")
    assert shown.decoder == HEX
    assert shown.text.split() == ["00000000", "00", "ff", "41", "..A"]
    assert show(b"[" * 100_000).decoder == TEXT, "nested too deeply"


def test_a_preview_is_one_line():
    assert preview(b"a\nb") == "a b"
    assert preview(b"x" * 100, 10) == "x" * 10 + "…"


def test_a_body_may_be_cut_within_a_character_of_four_bytes():
    shown = show("\N{GRINNING FACE}".encode() * 3, limit=7)
    assert (shown.decoder, shown.text, shown.shown) == (TEXT, "\N{GRINNING FACE}", 4)
    assert show("\N{GRINNING FACE}".encode()[:3]).decoder == HEX, "what is not cut must be whole"


def test_a_preview_has_eighty_characters():
    assert preview(b"x" * 80) == "x" * 80
    assert preview(b"x" * 81) == "x" * 80 + "…"


def test_a_preview_of_a_text_has_eighty_characters_without_blanks_between_its_lines():
    assert preview_of_text(" a\n\t b\x00") == "a b"
    assert preview_of_text("x" * 80) == "x" * 80
    assert preview_of_text("x" * 81) == "x" * 80 + "…"


def test_a_dump_has_sixteen_bytes_in_a_line():
    assert [line[:8] for line in show(bytes(33)).text.splitlines()] == ["00000000", "00000010", "00000020"]


def test_a_page_shows_sixty_four_kib_unless_told_otherwise():
    for size, shown in ((65_536, 65_536), (65_537, 65_536)):
        found = show(b"x" * size)
        assert (found.shown, found.size, found.is_cut) == (shown, size, shown < size)
    assert show(b"x" * 65_537, limit=None).shown == 65_537


def test_json_of_more_than_a_mib_is_not_laid_out():
    for size, decoder in ((2**20, JSON), (2**20 + 1, TEXT)):
        assert show(b'["' + b"x" * (size - 4) + b'"]', limit=None).decoder == decoder


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b' \n{"a": null}', '{\n  "a": null\n}'), (b"[]", "[]"), (b"{}", "{}"), (b"[true]", "[\n  true\n]"),
        ('{"\u00e4":"\u00f6"}'.encode(), '{\n  "\u00e4": "\u00f6"\n}'), (b"[-1,[2]]", "[\n  -1,\n  [\n    2\n  ]\n]"),
    ],
)  # fmt: skip
def test_json_is_laid_out(body, text):
    assert show(body)[:3] == (text, JSON, len(body))
    assert show(body, JSON)[:2] == (text, JSON)
    assert show(body, TEXT)[:2] == (body.decode(), TEXT)


@pytest.mark.parametrize("body", [b"1", b'"a"', b"{", b"[1,]", b"", b"a b", b"a\tb\r\nc", b"\x7f~"])
def test_what_is_no_object_or_list_is_shown_as_it_is(body):
    assert show(body) == show(body, JSON) == (body.decode(), TEXT, len(body), len(body))


@pytest.mark.parametrize("body", [b"a\x1fb", b"a\x00b", b"ab\xff", b"\xff"])
def test_what_is_no_text_is_a_dump_unless_text_is_asked_for(body):
    assert show(body).decoder == show(body, JSON).decoder == HEX
    assert show(body, HEX) == (hex_dump(body), HEX, len(body), len(body))


def test_bytes_may_be_read_as_text_and_text_as_bytes():
    assert show(b"a\xffb", TEXT) == ("a\N{REPLACEMENT CHARACTER}b", TEXT, 3, 3)
    assert show(b"\xffabcdefgh", TEXT, limit=6) == ("\N{REPLACEMENT CHARACTER}abcde", TEXT, 6, 9)
    assert show(b"{}", HEX).text == "00000000  7b 7d" + " " * 44 + "{}"


def test_only_the_last_three_bytes_of_a_part_may_be_a_character_that_is_cut():
    assert show(b"ab" + b"\xff" * 7, limit=6).decoder == HEX
    assert show(b"ab" + b"\xff" * 7, limit=5)[:3] == ("ab", TEXT, 2)


def test_a_dump_shows_printable_characters():
    first, second = hex_dump(bytes([0, 31, 32, 65, 126, 127, 255]) + b"x" * 10).splitlines()
    assert first == "00000000  00 1f 20 41 7e 7f ff 78 78 78 78 78 78 78 78 78  .. A~..xxxxxxxxx"
    assert second == "00000010  78" + " " * 47 + "x"


def test_a_preview_has_whole_characters():
    face = "\N{GRINNING FACE}"
    assert preview(face.encode() * 80) == face * 80
    assert preview(face.encode() * 81) == face * 80 + "\N{HORIZONTAL ELLIPSIS}"
    assert preview(b"") == ""
