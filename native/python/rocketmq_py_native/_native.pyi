# See rocketmq_py.accelerator, which describes these and says when they are used.
from collections.abc import Callable, Sequence
from typing import Any, final

FORMAT: int

@final
class Answers:
    def opaques(self) -> list[int]: ...
    def messages(self, status: bytes, /) -> list[bytes]: ...
    def encode(self, pieces: Sequence[bytes], host: bytes, /) -> bytes: ...

@final
class Sends:
    def __len__(self) -> int: ...
    def kinds(self) -> list[tuple[str, int, int, str, str]]: ...
    def verified(self, keys: Sequence[bytes | None], /) -> Sends: ...
    def frame(self, number: int, /) -> tuple[int, bytes, bytes]: ...
    def append(
        self,
        begin: int,
        targets: Sequence[tuple[int, int, int, int, tuple[bytes, bytes, bytes] | None] | None],
        queues: Sequence[tuple[int, int, bytes, int, int]],
        hosts: tuple[bytes, bytes],
        suffix: bytes,
        place: tuple[int, int, int],
        limits: tuple[int, int],
        /,
    ) -> tuple[int, bytes, list[list[int]], list[Any], Answers, list[Any]] | None: ...

@final
class CallAck:
    @property
    def group(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def pops(self) -> list[tuple[tuple[int, int, int, int, str, str, int], list[int], list[int]]]: ...
    def handles(self) -> list[str]: ...
    def answer(self, status: bytes, statuses: list[bytes] | None, /) -> bytes: ...

@final
class CallSends:
    def kinds_of(self) -> list[int | None]: ...
    def kinds(self) -> list[bytes]: ...
    def run(
        self,
        numbers: Sequence[int],
        targets: Sequence[tuple[bytes, int, tuple[bytes, bytes, bytes], int, int] | None],
        turn: int,
        /,
    ) -> Sends: ...

@final
class HeaderDecoder:
    def decode(self, block: bytes, /) -> list[tuple[bytes, bytes]] | int | None: ...

@final
class HeaderTables:
    def __init__(self, known: Sequence[tuple[bytes, bytes]], lengths: Sequence[int], table_size: int, /) -> None: ...
    def decoder(self, max_list: int, /) -> HeaderDecoder: ...

@final
class PoppedMessages:
    def __init__(self, names: Sequence[tuple[bytes, int]], /) -> None: ...
    def responses(
        self,
        body: bytes,
        begin: int,
        pop: tuple[bytes, list[tuple[int, int]], bytes, int],
        tags: list[bytes] | None,
        most_attempts: int,
        places: bool,
        /,
    ) -> tuple[list[bytes], int, list[tuple[str, int, int, int, int]]]: ...

@final
class SigningKey:
    def __init__(self, secret: bytes, before: bytes, /) -> None: ...
    def sign(self, content: bytes, body: bytes, /) -> bytes: ...

def ack_record(
    pop: tuple[str, str, int, int, int, str],
    offsets: Sequence[int],
    born: int,
    queue: tuple[int, int, bytes, int, int],
    host: bytes,
    place: tuple[int, int, int],
    limits: tuple[int, int],
    /,
) -> tuple[bytes, bytes] | None: ...
def call_ack(request: bytes, most_distance: int, orderly: int, /) -> CallAck | None: ...
def call_sends(requests: Sequence[bytes], most: int, /) -> CallSends: ...
def check_point_record(
    pop: tuple[str, str, int, int, int, str],
    invisible: tuple[int, Sequence[int]],
    born: int,
    queue: tuple[int, int, bytes, int, int],
    host: bytes,
    place: tuple[int, int, int],
    limits: tuple[int, int],
    /,
) -> tuple[bytes, bytes] | None: ...
def decode(
    ranges: list[tuple[list[bytes], int, int]], columns: tuple[str, ...], check_crc: bool, /
) -> tuple[list[int], tuple[Any, ...]] | None: ...
def plain_messages(
    body: bytes, origin: tuple[str, int, int, int] | None, reads: bool, check_crc: bool, broker_name: str, /
) -> tuple[list[tuple[tuple[Any, ...], str, bytes, bytes, str]], int]: ...
def encode_batch(
    body: bytes,
    queue: tuple[int, int, bytes, int, int],
    hosts: tuple[bytes, bytes],
    head: tuple[int, int, int],
    place: tuple[int, int, int],
    limits: tuple[int, int],
    /,
) -> tuple[bytes, list[int], list[Any]] | None: ...
def encode_messages(messages: list[tuple[int, bytes, dict[str, str]]], most: int, /) -> bytes | None: ...
def send_fields(
    numbers: tuple[int, int, int], properties: dict[str, str], more: tuple[bytes, bytes], most: int, /
) -> tuple[bytes, bytes] | None: ...
def send_frame(start: bytes, fields: bytes, numbers: tuple[int, int], tail: bytes, body: bytes, /) -> bytes | None: ...
def gather(
    buffer: Any, base: int, entries: bytes, most: int, expected: tuple[int, int, int] | None, /
) -> tuple[int, int, int, bytes | None] | None: ...
def index_entries(
    hashes: list[int], physicals: list[int], timestamps: list[int], begin: int, previous: bytes, /
) -> bytes: ...
def key_hashes(topics: list[int], keys: list[bytes], /) -> list[int]: ...
def cut_read(
    data: bytes, max_frame: int, frame: Callable[[int, bytes, bytes], Any], overtaken: Sequence[int], /
) -> tuple[list[Any], int, int, tuple[int, int] | None]: ...
def cut_answers(
    data: bytes, max_frame: int, frame: Callable[[int, bytes, bytes], Any], reply: Callable[..., Any], /
) -> tuple[list[Any], int, int, tuple[int, int] | None]: ...
def write_parts(parts: Sequence[tuple[str, int, int, bytes]], /) -> tuple[int, OSError | None]: ...
