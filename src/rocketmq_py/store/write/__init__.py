"""The write path: encoding of records, batches, and the fields that queues and index take from a record."""
