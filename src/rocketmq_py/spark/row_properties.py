"""Message properties that identify the rows of a sink."""

QUERY_ID, BATCH_ID, ROW_KEY = "SPARK_QUERY_ID", "SPARK_BATCH_ID", "SPARK_ROW_KEY"
"""Properties that identify a row: the same three values when its micro-batch is written again."""
ATTEMPT = "SPARK_ATTEMPT"
"""Property of exactly-once rows: the task attempt that wrote the row."""
