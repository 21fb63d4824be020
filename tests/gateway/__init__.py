"""The gateway: envelopes, drop-off and collection points, orchestrators."""
