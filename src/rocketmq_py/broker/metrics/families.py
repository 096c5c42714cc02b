"""The families of a broker's metrics: names, types and labels of Apache RocketMQ 5.5.0, and this project's own.

Where a name says another unit than Apache RocketMQ's brokers report, values are compatible, and the help text says so.
"""

from __future__ import annotations

from rocketmq_py.core.metrics.exposition import COUNTER, GAUGE, HISTOGRAM, Family

# -- requests

MESSAGES_IN = Family("rocketmq_messages_in_total", COUNTER, "Messages that producers sent.")
THROUGHPUT_IN = Family("rocketmq_throughput_in_total", COUNTER, "Bytes that producers sent, as stored.")
MESSAGE_SIZE = Family("rocketmq_message_size", HISTOGRAM, "Bytes of messages; a batch counts once, with its mean.")
MESSAGES_OUT = Family("rocketmq_messages_out_total", COUNTER, "Messages that groups received.")
THROUGHPUT_OUT = Family("rocketmq_throughput_out_total", COUNTER, "Bytes that groups received, as stored.")
TOPIC_CREATION = Family(
    "rocketmq_topic_create_execution_time_milliseconds", HISTOGRAM, "Time of a request that creates or changes topics."
)
GROUP_CREATION = Family(
    "rocketmq_consumer_group_create_execution_time_milliseconds",
    HISTOGRAM,
    "Time of a request that creates or changes consumer groups.",
)
# -- state

WATERMARK = Family("rocketmq_processor_watermark", GAUGE, "Requests of a kind that wait or are being handled.")
PERMISSION = Family("rocketmq_broker_permission", GAUGE, "4 for reading, 2 for writing, 6 for both.")
TOPICS = Family("rocketmq_topic_number", GAUGE, "Topics.")
GROUPS = Family("rocketmq_consumer_group_number", GAUGE, "Consumer groups.")
PRODUCERS = Family("rocketmq_producer_connections", GAUGE, "Connected producers.")
CONSUMERS = Family("rocketmq_consumer_connections", GAUGE, "Connected consumers of a group.")

# -- groups

LAG = Family("rocketmq_consumer_lag_messages", GAUGE, "Messages a group has not consumed, also of offline groups.")
INFLIGHT = Family(
    "rocketmq_consumer_inflight_messages", GAUGE, "Messages delivered to a group, not committed or acked."
)
READY = Family("rocketmq_consumer_ready_messages", GAUGE, "Messages not delivered to a group yet.")
LAG_LATENCY = Family("rocketmq_consumer_lag_latency_milliseconds", GAUGE, "Age of the oldest message not consumed.")
QUEUEING_LATENCY = Family(
    "rocketmq_consumer_queueing_latency_milliseconds", GAUGE, "Age of the oldest message not delivered."
)
DEAD_LETTERS = Family("rocketmq_send_to_dlq_messages_total", COUNTER, "Messages that became dead letters.")
QUEUE_LAG = Family("rocketmq_py_consumer_queue_lag_messages", GAUGE, "As lag_messages, of one queue.")
QUEUE_LAG_LATENCY = Family(
    "rocketmq_py_consumer_queue_lag_latency_milliseconds", GAUGE, "As lag_latency_milliseconds, of one queue."
)

# -- transactions

COMMITTED = Family("rocketmq_commit_messages_total", COUNTER, "Messages of committed transactions.")
ROLLED_BACK = Family("rocketmq_rollback_messages_total", COUNTER, "Messages of transactions that were rolled back.")
HALF_MESSAGES = Family("rocketmq_half_messages", GAUGE, "Messages of open transactions, of those sent since the start.")
FINISH_LATENCY = Family(
    "rocketmq_finish_message_latency_milliseconds", HISTOGRAM,
    "Time from half message to commit, in SECONDS in spite of the name, as in Apache RocketMQ.",
)  # fmt: skip

OPEN_TRANSACTIONS = Family("rocketmq_py_open_transactions", GAUGE, "Half messages that no check has processed yet.")

# -- store

STORAGE_SIZE = Family("rocketmq_storage_size_bytes", GAUGE, "Used bytes of the file system of the store.")
FLUSH_BEHIND = Family("rocketmq_storage_flush_behind_bytes", GAUGE, "Bytes of the log that are not flushed to disk.")
DISPATCH_BEHIND = Family(
    "rocketmq_storage_dispatch_behind_bytes", GAUGE,
    "Bytes of the log whose queue entries are still to be written; only during a rebuild, they are written together.",
)  # fmt: skip
RESERVE_TIME = Family(
    "rocketmq_storage_message_reserve_time_milliseconds", GAUGE, "Age of the oldest message in the store."
)
TIMER_ENQUEUE_LAG = Family("rocketmq_timer_enqueue_lag", GAUGE, "Timed messages that are not in the timer wheel yet.")
TIMER_ENQUEUE_LATENCY = Family(
    "rocketmq_timer_enqueue_latency_milliseconds",
    GAUGE,
    "Age of the oldest timed message that is not in the timer wheel yet.",
)
TIMER_DEQUEUE_LAG = Family("rocketmq_timer_dequeue_lag", GAUGE, "Messages in the timer wheel.")
TIMER_DEQUEUE_LATENCY = Family(
    "rocketmq_timer_dequeue_latency_milliseconds", GAUGE, "How far delivery of timed messages is behind the clock."
)
TIMER_ENQUEUED = Family("rocketmq_timer_enqueue_total", COUNTER, "Messages put into the timer wheel.")
TIMER_DEQUEUED = Family("rocketmq_timer_dequeue_total", COUNTER, "Messages taken from the timer wheel.")
TIMING_MESSAGES = Family("rocketmq_timing_messages", GAUGE, "Timed messages that are not delivered, by topic.")

TIMER_SNAPSHOT = Family(
    "rocketmq_timer_message_snapshot", GAUGE,
    "Messages in the timer wheel that are due within so many seconds, and not within those of the series before.",
)  # fmt: skip
DELAY_LATENCY = Family(
    "rocketmq_delay_message_latency_seconds", HISTOGRAM, "For how long timed messages asked to be delayed."
)

# -- POP

POP_SCAN = Family(
    "rocketmq_pop_buffer_scan_time_consume_milliseconds", HISTOGRAM, "Time of a search for messages to revive."
)
POP_OFFSETS = Family(
    "rocketmq_pop_offset_buffer_size", GAUGE, "Offsets of pops that are not committed: 0, they are committed at once."
)
POP_REVIVE_IN = Family(
    "rocketmq_pop_revive_in_message_total", COUNTER, "Pops (CK) and acks (ACK) written to the revive log."
)
POP_REVIVE_OUT = Family(
    "rocketmq_pop_revive_out_message_total", COUNTER, "Pops (CK) that are over, and their acks (ACK)."
)
POP_RETRIES = Family(
    "rocketmq_pop_revive_retry_messages_total", COUNTER, "Popped messages that were stored again: not acked in time."
)

POP_CHECKPOINTS = Family("rocketmq_pop_checkpoint_buffer_size", GAUGE, "Pops with messages that are not acked.")
POP_REVIVE_LAG = Family(
    "rocketmq_pop_revive_lag_milliseconds", GAUGE,
    "Entries of a revive queue behind the oldest pop in flight: MESSAGES in spite of the name, as in Apache RocketMQ.",
)  # fmt: skip
POP_REVIVE_LATENCY = Family(
    "rocketmq_pop_revive_latency_milliseconds", GAUGE, "Age of the oldest entry of a revive queue that is needed."
)

# -- of this project

STORE_BYTES = Family("rocketmq_py_commit_log_bytes", GAUGE, "Bytes of the commit log.")
HELD_PULLS = Family("rocketmq_py_held_pulls", GAUGE, "Pulls that wait for messages.")
HELD_POPS = Family("rocketmq_py_held_pops", GAUGE, "Pops that wait for messages.")
CONNECTIONS = Family("rocketmq_py_connections", GAUGE, "Open connections.")
SLOW_TURNS = Family("rocketmq_py_slow_turns_total", COUNTER, "Turns of the event loop of more than 50 ms.")
SLOWEST_TURN = Family("rocketmq_py_slowest_turn_seconds", GAUGE, "The longest turn of the event loop since the start.")
WRITABLE = Family("rocketmq_py_store_writable", GAUGE, "1 if the store accepts messages, 0 if it refuses them.")
DAMAGES = Family("rocketmq_py_store_damages_total", COUNTER, "Damaged parts of the commit log that were found.")
HEALED = Family("rocketmq_py_store_healed_records_total", COUNTER, "Damaged records taken from a replica.")
REBUILT = Family("rocketmq_py_store_rebuilt_entries_total", COUNTER, "Consume queue entries found wrong and rewritten.")
REBUILD_QUEUES = Family("rocketmq_py_store_rebuild_queues", GAUGE, "Consume queues that are not rebuilt yet.")
REBUILD_BYTES = Family("rocketmq_py_store_rebuild_bytes", GAUGE, "Bytes of the commit log to read until they are.")
START_TIME = Family("rocketmq_py_start_time_seconds", GAUGE, "When the broker started, in seconds since the epoch.")
TRUNCATED = Family("rocketmq_py_series_left_out", GAUGE, "Series beyond metricsOtelCardinalityLimit, by metric.")
