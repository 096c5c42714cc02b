"""Handling of requests, from frames to answers: routing, lanes, dispatch, failures, GO_AWAY."""
