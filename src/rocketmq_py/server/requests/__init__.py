"""From frames to answers: routing, lanes, dispatch, authentication, failures."""
