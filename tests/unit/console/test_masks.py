"""What of bodies is shown: masked values, and everything else that a mask cannot be applied to hidden."""

from __future__ import annotations

import signal
import time

import pytest

from rocketmq_py.console import masks as module
from rocketmq_py.console.bodies import HEX, JSON, TEXT, json_text
from rocketmq_py.console.masks import HIDDEN, Masks, parse_path, replaced
from rocketmq_py.errors import ConfigError

CARD = rb'{"card":{"number":"4111111111111111","year":30},"n":[{"iban":"DE1","x":[{"token":"t1"}]},{"iban":2.50}]}'


def shown(body: bytes, *paths: str) -> str:
    text = Masks(paths=paths).of_page().show(body).text
    return "".join(text.split())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("$.card.number", '{"card":{"number":"***","year":30}'),
        ("$.card", '{"card":"***","n":['),
        ("$['card']['year']", '"year":"***"}'),
        ("$.card.*", '{"number":"***","year":"***"}'),
        ("$.n[*].iban", '"n":[{"iban":"***","x":[{"token":"t1"}]},{"iban":"***"}]'),
        ("$.n[1].iban", '"n":[{"iban":"DE1","x":[{"token":"t1"}]},{"iban":"***"}]'),
        ("$.n[*]", '"n":["***","***"]'),
        ("$..token", '"x":[{"token":"***"}]'),
        ("$..n..token", '"x":[{"token":"***"}]'),
        ("$", '"***"'),
        ("$.n.iban", '"n":[{"iban":"DE1","x":[{"token":"t1"}]},{"iban":2.50}]'),
        ("$.n['1']", '{"iban":2.50}'),
    ],
)
def test_the_values_at_a_path_are_masked_and_nothing_else(path: str, text: str) -> None:
    assert text in shown(CARD, path)


def test_every_member_of_the_same_name_is_masked() -> None:
    assert shown(b'{"a":1,"a":{"a":2}}', "$.a") == '{"a":"***","a":"***"}'
    assert shown(b'{"a":1,"b":{"a":2}}', "$..a", "$.c") == '{"a":"***","b":{"a":"***"}}'


@pytest.mark.parametrize(
    "path", ["card", "$.", "$.a[", "$.a[x]", "$..", "", "$a", "$.a b]", "$.a[1234567890]", "$['']"]
)
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="is no JSON path"):
        parse_path(path)


@pytest.mark.parametrize(
    ("pattern", "why"), [("(", "is no regular expression"), ("x*", "matches everywhere"), ("", "matches everywhere")]
)
def test_what_is_no_pattern_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Masks([pattern])


def test_patterns_are_applied_to_what_is_shown() -> None:
    bodies = Masks([r"\d{13,19}", "Ada"]).of_page()
    assert bodies.preview(b"card 4111111111111111 of Ada, 12") == "card *** of ***, 12"
    escaped = rb'{"who":"\u0041da","n":"\u00344111111111111119"}'
    assert (bodies.show(escaped).decoder, bodies.show(escaped, TEXT).text) == (JSON, bodies.show(escaped).text)
    assert "".join(bodies.show(escaped, HEX).text.split()) == '{"who":"***","n":"***"}'
    assert bodies.preview(escaped) == '{ "who": "***", "n": "***" }'


def test_a_match_is_masked_also_where_a_list_or_a_page_cuts_it() -> None:
    body = b"x" * 70 + b"secret" * 50
    bodies = Masks(["(secret)+"]).of_page()
    assert bodies.preview(body) == "x" * 70 + "***"
    found = bodies.show(body, limit=71)
    assert (found.text, found.is_cut, found.size) == ("x" * 70 + "*", True, len(body))
    assert not bodies.show(body, limit=73).is_cut


@pytest.mark.parametrize("body", [b"\x00\x01", b"\xff\xfe4\x00", b"\x1f\x8b\x08"])
def test_bytes_are_hidden_where_there_are_masks(body: bytes) -> None:
    for masks in (Masks(["x"]), Masks(paths=["$.x"])):
        found = masks.of_page().show(body, HEX)
        assert (found.text, found.decoder, found.size) == ("", HIDDEN, len(body))
        assert masks.of_page().preview(body) is None


def test_text_that_is_no_json_is_hidden_where_there_are_paths() -> None:
    for body in (b"number=4111", CARD[:-1], b"[" * 100_000):
        assert Masks(paths=["$.x"]).of_page().preview(body[:10_000]) is None
        assert Masks(paths=["$.x"]).of_page().show(body).decoder == HIDDEN
    assert Masks(["x"]).of_page().preview(b"number=4111") == "number=4111"


def test_long_bodies_are_hidden() -> None:
    for size, in_list, on_page, with_paths in (
        (16 * 1024, True, True, True), (16 * 1024 + 1, False, True, True), (1024 * 1024, False, True, True),
        (1024 * 1024 + 1, False, False, False),
    ):  # fmt: skip
        text, tree = b"x" * size, b'["' + b"x" * (size - 4) + b'"]'
        assert (Masks(["y"]).of_page().preview(text) is not None) == in_list
        assert (Masks(["y"]).of_page().show(text).decoder == TEXT) == on_page
        assert (Masks(paths=["$.y"]).of_page().show(tree).decoder == JSON) == with_paths


def test_without_rules_bodies_are_shown_and_without_bodies_none() -> None:
    assert Masks().of_page().show(b"\x00").decoder == HEX
    assert [Masks().of_page().preview(body) for body in (b"a", b'{"a":1}', b"\x00")] == ["a", '{"a":1}', " "]
    hidden = Masks(are_hidden=True).of_page()
    assert (hidden.preview(b"a"), hidden.show(b"a").text, hidden.show(b"a").decoder) == (None, "", HIDDEN)
    assert [masks.is_open for masks in (Masks(), Masks(["x"]), Masks(paths=["$"]), Masks(are_hidden=True))] == [
        True, False, False, False,
    ]  # fmt: skip


def test_a_search_that_takes_too_long_ends_and_hides() -> None:
    patterns = Masks(["(a+)+$"]).patterns
    before = signal.getsignal(signal.SIGVTALRM)
    assert replaced(patterns, "a" * 60 + "b", 0.01) is None
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert replaced(patterns, "aa", 1.0) == "***"


def test_a_search_stays_in_a_line_and_long_lines_are_masked_as_a_whole() -> None:
    bodies = Masks(["^a", "b$", "c[^d]*d"]).of_page()
    assert bodies.show(b"ab\nab\nc\nd\ncxd").text == "******\n******\nc\nd\n***"
    for length, text in ((4096, "x" * 4096), (4097, "***")):
        assert Masks(["y"]).of_page().show(b"1\n" + b"x" * length + b"\n2").text == f"1\n{text}\n2"
        value = b'{"a":1,"b":"' + b"x" * (length - 9) + b'"}'
        member = f'  "b": "{"x" * (length - 9)}"' if length == 4096 else "***"
        assert Masks(["y"]).of_page().show(value).text == f'{{\n  "a": 1,\n{member}\n}}'


@pytest.mark.parametrize("pattern", [r"\d+x", r"(\d+\d+)+x", r"(1+)+$"])
def test_a_text_made_to_take_long_is_hidden(pattern: str) -> None:
    assert Masks([pattern]).of_page().show((b"1" * 4095 + b"2\n") * 200).decoder == HIDDEN


def test_the_bodies_of_a_page_share_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([0.0, 0.15, 0.15, 0.30])
    monkeypatch.setattr(time, "process_time", lambda: next(used))
    given: list[float] = []
    monkeypatch.setattr(module, "replaced", lambda _, text, seconds: given.append(seconds) or text)
    bodies = Masks(["x"]).of_page()
    assert [bodies.preview(b"a") for _ in range(3)] == ["a", "a", None]
    assert given == [module.PAGE_SECONDS, pytest.approx(module.PAGE_SECONDS - 0.15)]


def test_patterns_need_a_system_that_can_end_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "SIGVTALRM")
    Masks(paths=["$"], are_hidden=True)
    with pytest.raises(ConfigError, match="on this system"):
        Masks(["x"])


def test_half_a_pair_of_surrogates_stays_an_escape() -> None:
    text = json_text(rb'{"\ud800":"\ud83d\ude00\udfff"}')
    assert text is not None
    assert text.encode().decode() == '{\n  "\\ud800": "\\ud83d\\ude00\\udfff"\n}'
