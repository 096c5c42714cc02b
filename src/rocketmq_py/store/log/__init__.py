"""The commit log: files, scan, flush, checkpoint, and the offset up to which records are confirmed."""
