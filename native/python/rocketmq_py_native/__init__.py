"""The compiled hot path of RocketMQ for Python and Spark, in Rust.

Optional: :mod:`rocketmq_py.accelerator` uses it where it is installed; without it Python does the same.
"""

from rocketmq_py_native._native import (
    FORMAT,
    Answers,
    CallSends,
    HeaderDecoder,
    HeaderTables,
    Sends,
    SigningKey,
    call_sends,
    cut_answers,
    cut_read,
    decode,
    encode_batch,
    encode_messages,
    gather,
    index_entries,
    key_hashes,
    plain_messages,
    send_fields,
    send_frame,
    write_parts,
)

__all__ = [
    "FORMAT",
    "Answers",
    "CallSends",
    "HeaderDecoder",
    "HeaderTables",
    "Sends",
    "SigningKey",
    "call_sends",
    "cut_answers",
    "cut_read",
    "decode",
    "encode_batch",
    "encode_messages",
    "gather",
    "index_entries",
    "key_hashes",
    "plain_messages",
    "send_fields",
    "send_frame",
    "write_parts",
]
