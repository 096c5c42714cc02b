"""Bodies as text: whole, or said to be cut."""

from rocketmq_py.console.bodies import HEX, JSON, TEXT, preview, show


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


def test_a_dump_has_sixteen_bytes_in_a_line():
    assert [line[:8] for line in show(bytes(33)).text.splitlines()] == ["00000000", "00000010", "00000020"]
