"""Waiting times of one steady producer at a broker with growing numbers of topics, groups or group members."""
