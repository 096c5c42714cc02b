"""What a header or a body means by a number or a flag that is not there."""

from __future__ import annotations

import msgspec


def defaults(cls: type[msgspec.Struct]) -> dict[str, int | float]:
    """The numbers and flags that members of ``cls`` have by default, by the names in the encoding."""
    fields = msgspec.structs.fields(cls)
    return {field.encode_name: field.default for field in fields if isinstance(field.default, int | float)}
