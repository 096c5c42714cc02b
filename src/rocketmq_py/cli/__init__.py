"""The ``rocketmq`` command.

Knows verbs, options, what is printed and exit statuses. Refuses to know rules: every verb is a thin front of a package.
Start-up is quick because a verb's module is imported only when it runs.
"""

from rocketmq_py.cli.root import main

__all__ = ["main"]
