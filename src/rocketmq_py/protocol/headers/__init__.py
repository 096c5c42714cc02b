"""Request and response headers: one class per header, with the fields of Apache RocketMQ's classes in snake_case."""
