"""Who asks, what they may have, and how the gateway tells its own words from those of others."""
