"""Where Spark looks for a data source: it imports top-level modules named ``pyspark_*`` and takes ``DefaultSource``."""

from rocketmq_py.spark.datasource import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
