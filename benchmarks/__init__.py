"""Figures of rocketmq-py beside Apache RocketMQ and Spark's Kafka source, measured on one machine in turn.

``python -m benchmarks`` (``make bench``) runs all rows, ``--only ROW`` one of them. What each row does and how to read
the table is described in docs/benchmarks.md.
"""
