"""The compiled part of RocketMQ for Python and Spark: records into the buffers of Arrow columns, in C.

Optional: :mod:`rocketmq_py.spark.decode` uses it where it is installed and does the same with NumPy where it is not.
"""

from rocketmq_py_native._records import FORMAT, decode

__all__ = ["FORMAT", "decode"]
