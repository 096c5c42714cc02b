"""Integer types with Java's ranges, for declarations of headers and bodies.

msgspec checks the range while it decodes, in C. A value that Java's ``int`` or ``long`` cannot hold is refused at the
edge, so that no handler packs, adds or stores it.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Int32 = Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX)]
"""Java's ``int``."""

Int64 = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]
"""Java's ``long``."""

NonNegative64 = Annotated[int, Meta(ge=0, le=INT64_MAX)]
"""A ``long`` that makes no sense below zero, such as a duration."""
