"""The words of the pages: one catalogue for each language, ``languages/LANGUAGE.json``, all with the same keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

ENGLISH, CHINESE = "en", "zh"
LANGUAGES = (ENGLISH, CHINESE)


def language(asked: str | None, accepted: str) -> str:
    """Return the language of a page.

    :param asked: what the user chose; None without a choice.
    :param accepted: the Accept-Language header.
    """
    wanted = [asked or "", *(part.partition(";")[0].strip() for part in accepted.split(",")[:16])]
    return next((name for part in wanted if (name := part[:2].lower()) in LANGUAGES), ENGLISH)


@cache
def words(chosen: str) -> Mapping[str, str]:
    """Return the words of a language."""
    text = (resources.files("rocketmq_py.console") / "languages" / f"{chosen}.json").read_text("utf-8")
    return MappingProxyType(json.loads(text))
