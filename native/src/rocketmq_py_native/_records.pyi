FORMAT: int
"""What :func:`decode` takes and gives is called by this number; it changes when they do."""

def decode(
    bodies: list[bytes], start: int, stop: int, columns: tuple[str, ...], /
) -> tuple[int, tuple[object, ...]] | None: ...
