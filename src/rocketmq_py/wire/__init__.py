"""Bytes of the remoting protocol and of the store, and nothing else.

Knows frames, headers, fastjson's dialect, the stored-message record, batches, compression, ids and signatures. Refuses
to know sockets, files, clocks, threads and which requests exist.
"""
