"""UDP multicast: a topology without any broker."""
