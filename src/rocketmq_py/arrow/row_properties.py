"""Names of the message properties with which the Spark sink identifies the rows it sends."""

from rocketmq_py.properties import SPARK_ATTEMPT, SPARK_BATCH_ID, SPARK_QUERY_ID, SPARK_ROW_KEY

QUERY_ID, BATCH_ID, ROW_KEY = SPARK_QUERY_ID, SPARK_BATCH_ID, SPARK_ROW_KEY
"""Three properties that identify a row: a retried micro-batch sends it with the same values."""
ATTEMPT = SPARK_ATTEMPT
"""Property of exactly-once rows: the task attempt that wrote the row."""
