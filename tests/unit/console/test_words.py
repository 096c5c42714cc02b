"""The catalogues of words: every key in every language, every word that a template uses."""

import json
import re
from pathlib import Path

import pytest

import rocketmq_py.console
from rocketmq_py.console.words import LANGUAGES, language, words

FOLDER = Path(rocketmq_py.console.__file__).parent
USED = re.compile(r"\bt\.(\w+)|\bt\[['\"](\w+)['\"]\]")


def test_every_language_has_every_word():
    first, *others = (words(name) for name in LANGUAGES)
    for other in others:
        assert first.keys() == other.keys()
    assert all(text.strip() for name in LANGUAGES for text in words(name).values())
    assert sorted(path.stem for path in (FOLDER / "languages").glob("*.json")) == sorted(LANGUAGES)


def test_no_key_is_written_twice():
    for name in LANGUAGES:
        pairs = json.loads((FOLDER / "languages" / f"{name}.json").read_text(), object_pairs_hook=list)
        assert len(dict(pairs)) == len(pairs)


def test_templates_use_words_that_exist():
    templates = (FOLDER / "templates").glob("*.html")
    used = {a or b for path in templates for a, b in USED.findall(path.read_text())}
    assert used - words("en").keys() == set()


@pytest.mark.parametrize(
    ("asked", "accepted", "chosen"),
    [
        (None, "", "en"),
        (None, "zh-CN,zh;q=0.9,en", "zh"),
        ("en", "zh", "en"),
        ("xx", "fr, zh", "zh"),
        ("<b>", "", "en"),
    ],
)
def test_a_language_is_asked_for_or_accepted(asked, accepted, chosen):
    assert language(asked, accepted) == chosen


def test_sixteen_languages_of_a_browser_are_looked_at():
    assert language(None, ",".join(["fr"] * 15 + ["zh"])) == "zh"
    assert language(None, ",".join(["fr"] * 16 + ["zh"])) == "en"
    assert language(None, "ZH-tw;q=0.1") == "zh"
