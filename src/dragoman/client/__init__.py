"""The client: endpoints, producers, requests, and the one delivery loop above all brokers."""
