"""Connected clients, registration at name servers, other brokers of the same name, assignment of queues."""
