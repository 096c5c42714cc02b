"""``rocketmq archive`` and ``rocketmq replay``: topics as Parquet files, and back into topics."""
