"""Request and response headers, one class per header, named as Apache RocketMQ's classes in snake_case fields."""
