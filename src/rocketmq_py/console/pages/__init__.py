"""The handlers of the pages: each asks the cluster and returns a :class:`~rocketmq_py.console.page.Page`."""
