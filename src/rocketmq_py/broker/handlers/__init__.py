"""The broker's request handlers, by theme: thin methods that decode a body, ask a service and build an answer."""
