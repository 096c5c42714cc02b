"""The ``rocketmq`` command-line tool.

Commands parse options, call other packages and print the results. The module of a command is imported when the command
runs, which keeps the start-up fast.
"""

from rocketmq_py.cli.root import main

__all__ = ["main"]
