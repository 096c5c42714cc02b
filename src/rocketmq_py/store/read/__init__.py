"""The read path: messages by queue offset, time, key and tag."""
