"""The web console: pages that show and change a cluster of this project or of Apache RocketMQ.

Needs the extra ``console``. Everything it knows it asks with :class:`~rocketmq_py.client.admin.admin.Admin`.
"""
