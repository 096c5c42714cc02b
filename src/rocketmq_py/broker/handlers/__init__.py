"""Request handlers by theme: thin methods that decode a body, call a service and build an answer."""
