"""gRPC on the ports of a server: HTTP/2 connections, and the calls in their streams."""
