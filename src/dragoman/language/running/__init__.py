"""A model that runs: bringing registry and brokers to what it says."""
