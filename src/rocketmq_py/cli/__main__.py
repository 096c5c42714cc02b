"""Run the ``rocketmq`` command by ``python -m rocketmq_py.cli``."""

from rocketmq_py.cli import main

main()
