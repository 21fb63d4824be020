"""Admins: every broker, and UDP multicast."""
