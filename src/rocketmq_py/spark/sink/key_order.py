"""Order for the rows of a batch that have the same sharding key: :func:`in_key_order`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from rocketmq_py.errors import ConfigError

_ROW = "__rocketmq_row"


def in_key_order(
    frame: DataFrame, *order: str | Column, key: str = "shardingKey", partitions: int | None = None
) -> DataFrame:
    """Return the same rows, those of each key in one Spark partition and in order, so that the sink sends them so.

    A sink sends the rows of one sharding key in order only within a Spark task, and Spark gives a sink no means to say
    which task gets a row. After this function one task gets all rows of a key.

    :param order: columns that order the rows of a key. Default: the order of the DataFrame, by partition and row.
    :param key: the column with the sharding key.
    :param partitions: the number of Spark partitions (default ``spark.sql.shuffle.partitions``).
    :raises ConfigError: there is no column ``key``, or the DataFrame is a stream, which Spark does not sort: call this
        function in ``foreachBatch``.
    """
    if frame.isStreaming:
        raise ConfigError("Spark does not sort a stream: call in_key_order for each micro-batch, in foreachBatch")
    if key not in frame.columns:
        raise ConfigError(f"there is no column {key!r}; columns are {', '.join(frame.columns)}")
    if not order:
        frame, order = frame.withColumn(_ROW, F.monotonically_increasing_id()), (_ROW,)
    together = frame.repartition(F.col(key)) if partitions is None else frame.repartition(partitions, F.col(key))
    return together.sortWithinPartitions(*order).drop(_ROW)
