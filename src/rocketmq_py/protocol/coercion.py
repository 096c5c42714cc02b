"""Conversion of parsed JSON and of header fields to their declared types, as lenient as fastjson 2.

It is used only after msgspec has refused a value. The rules are those of Apache RocketMQ 5.5's servers: they accept an
enum by its ordinal or in another case, numbers as texts and texts as numbers, booleans as 0 and 1, and one object where
a list is declared. Values that fastjson converts to nonsense (an object to a number, a number out of range to another
number) are refused; the error has the name of the member and its value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from rocketmq_py.errors import BadHeader, shortened
from rocketmq_py.wire import fastjson

S = TypeVar("S", bound=msgspec.Struct)

_ENUM = "java_enum"
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?")
_BOOLEANS = {"true": True, "1": True, "y": True, "false": False, "0": False, "n": False}
_EMPTY = ("", "null")
_ABSENT: Final = object()
"""Result of a conversion for a member to leave out, so that it gets its default."""

_Convert = Callable[[Any, Any, str], Any]


def java_enum(*names: str) -> msgspec.Meta:
    """Return the type annotation for a string member that is an enum in Java.

    :param names: names of the enum's constants, in the order of their ordinals.
    """
    return msgspec.Meta(pattern=rf"\A(?:{'|'.join(names)})\Z", extra={_ENUM: names})


def convert_leniently(value: Any, cls: type[S]) -> S:
    """Convert a parsed JSON value, or a dictionary of header fields, to a header or body class.

    :raises BadHeader: a member has a wrong value, or a required one is missing; the error names it.
    """
    try:
        converted = _struct(value, _described(cls), "")
        return msgspec.convert({} if converted is _ABSENT else converted, cls, strict=False)
    except (_Mismatch, msgspec.ValidationError) as e:
        raise BadHeader(f"{cls.__name__}: {e}") from None


class _Mismatch(ValueError):
    def __init__(self, path: str, value: Any, expected: str) -> None:
        super().__init__(f"{path or 'the value'} is {shortened(repr(value))}: {expected} is expected")


@cache
def _described(cls: type[msgspec.Struct]) -> inspect.StructType:
    described = inspect.type_info(cls)
    assert isinstance(described, inspect.StructType)
    return described


def _convert(value: Any, kind: inspect.Type, path: str) -> Any:
    if value is None:
        return _ABSENT
    convert: _Convert = _CONVERTERS.get(type(kind), _unchanged)
    return convert(value, kind, path)


def _unchanged(value: Any, _: inspect.Type, __: str) -> Any:
    return value


def _annotated(value: Any, kind: inspect.Metadata, path: str) -> Any:
    names = (kind.extra or {}).get(_ENUM)
    return _convert(value, kind.type, path) if names is None else _enum(value, names, path)


def _optional(value: Any, kind: inspect.UnionType, path: str) -> Any:
    """Convert a value to the type ``X`` of ``X | None``; headers and bodies declare no other unions."""
    return _convert(value, next(one for one in kind.types if not isinstance(one, inspect.NoneType)), path)


def _struct(value: Any, kind: inspect.StructType, path: str) -> Any:
    if value in _EMPTY and isinstance(value, str):
        return _ABSENT
    if not isinstance(value, dict):
        raise _Mismatch(path, value, "an object")
    found = {}
    for field in kind.fields:
        converted = _convert(value.get(field.encode_name), field.type, _member(path, field.encode_name))
        if converted is not _ABSENT:
            found[field.encode_name] = converted
    return found


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _list(value: Any, kind: inspect.ListType, path: str) -> Any:
    if value == "":
        return []
    if isinstance(value, bool | int | float):
        raise _Mismatch(path, value, "a list")
    items = value if isinstance(value, list) else [value]
    converted = [_convert(item, kind.item_type, f"{path}[{i}]") for i, item in enumerate(items)]
    return [item for item in converted if item is not _ABSENT]


def _dict(value: Any, kind: inspect.DictType, path: str) -> Any:
    if value in _EMPTY and isinstance(value, str):
        return _ABSENT
    if not isinstance(value, dict):
        raise _Mismatch(path, value, "an object")
    found = {}
    for name, item in value.items():
        converted = _convert(item, kind.value_type, _member(path, shortened(name)))
        if converted is not _ABSENT:
            found[_convert(name, kind.key_type, f"a key of {path}")] = converted
    return found


def _enum(value: Any, names: tuple[str, ...], path: str) -> Any:
    """Return the name of an enum constant given by name or ordinal.

    An unknown name counts as absent.

    :raises _Mismatch: the ordinal is unknown, or the value is neither a text nor a number.
    """
    if isinstance(value, str):
        plain = {str(ordinal): name for ordinal, name in enumerate(names)}
        plain |= {name.replace("_", "").lower(): name for name in names}
        return plain.get(value.replace("_", "").lower(), _ABSENT)
    ordinal = -1 if isinstance(value, bool) else _whole(value, path)
    if not 0 <= ordinal < len(names):
        raise _Mismatch(path, value, f"one of {', '.join(names)}, or 0 to {len(names) - 1},")
    return names[ordinal]


def _int(value: Any, kind: inspect.IntType, path: str) -> Any:
    if isinstance(value, str) and value.lower() in _EMPTY:
        return _ABSENT
    number = _whole(value, path)
    if (kind.ge is not None and number < kind.ge) or (kind.le is not None and number > kind.le):
        raise _Mismatch(path, value, f"a whole number from {kind.ge} to {kind.le}")
    return number


def _whole(value: Any, path: str) -> int:
    """Convert a value to a whole number; decimals are cut off.

    :raises _Mismatch: the value is not a number.
    """
    if isinstance(value, str):
        if _WHOLE.fullmatch(value):
            return int(value)
        if value.lower() in ("true", "false"):
            return int(value.lower() == "true")
        if _NUMBER.fullmatch(value):
            return int(Decimal(value))
    elif isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return int(value)
    raise _Mismatch(path, value, "a whole number")


def _float(value: Any, _: inspect.FloatType, path: str) -> Any:
    if isinstance(value, str) and value.lower() in _EMPTY:
        return _ABSENT
    if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise _Mismatch(path, value, "a number")


def _bool(value: Any, _: inspect.BoolType, path: str) -> Any:
    if isinstance(value, bool):
        return value
    text = str(value).lower() if isinstance(value, str | int) else ""
    if isinstance(value, str) and text in _EMPTY:
        return _ABSENT
    if text not in _BOOLEANS:
        raise _Mismatch(path, value, "true or false")
    return _BOOLEANS[text]


def _str(value: Any, kind: inspect.StrType, path: str) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and len(value) == 1:
        return _convert(value[0], kind, path)
    return str(value) if isinstance(value, int | float) else fastjson.dumps(value).decode()


_CONVERTERS: dict[type[inspect.Type], _Convert] = {
    inspect.StructType: _struct,
    inspect.ListType: _list,
    inspect.DictType: _dict,
    inspect.UnionType: _optional,
    inspect.Metadata: _annotated,
    inspect.IntType: _int,
    inspect.FloatType: _float,
    inspect.BoolType: _bool,
    inspect.StrType: _str,
}
