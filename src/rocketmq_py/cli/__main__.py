"""``python -m rocketmq_py.cli`` is the ``rocketmq`` command."""

from rocketmq_py.cli import main

main()
