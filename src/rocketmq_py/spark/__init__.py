"""The PySpark data source ``rocketmq``: batch and streaming reads, batch and streaming writes.

Spark finds it by itself (through the top-level package ``pyspark_rocketmq``); nothing has to be registered::

    df = spark.readStream.format("rocketmq").option("namesrv", "host:9876").option("subscribe", "orders").load()

:func:`session_builder` gives a Spark session that also starts where no Java is installed. Importing this package does
not import PySpark.
"""

from rocketmq_py.spark.jre import ensure_java, session_builder

__all__ = ["ensure_java", "session_builder"]
