"""Encoding and decoding of the remoting protocol and of stored messages.

The package has frames, headers, fastjson's JSON dialect, the stored-message record, batches, compression, ids and
signatures. It does no IO, reads no clock and does not depend on which requests exist.
"""
