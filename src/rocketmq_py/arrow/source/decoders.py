"""The decoders of one task: one for each broker whose queues it reads."""

from __future__ import annotations

from typing import Any

from rocketmq_py.arrow.decode import BodyLimits, Decoder
from rocketmq_py.arrow.options.read import ReadOptions


class Decoders:
    """Decoders by broker name, made on first use and kept: making one takes as long as decoding hundreds of messages.

    :param schema: the Arrow schema of their batches.
    """

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.schema = schema
        self._options = options
        self._made: dict[str, Decoder] = {}

    def of(self, broker_name: str) -> Decoder:
        """Return the decoder for records of the broker ``broker_name``."""
        decoder = self._made.get(broker_name)
        if decoder is None:
            options = self._options
            decoder = self._made[broker_name] = Decoder(
                self.schema,
                broker_name,
                options.tags,
                check_crc=options.check_crc,
                choice=options.decoder,
                limits=BodyLimits(options.max_decompressed_body, options.max_decompressed_batch),
            )
        return decoder
