"""Where gateways keep what they have accepted and what waits to be collected."""
