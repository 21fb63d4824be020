"""The gateway over HTTP: two URLs for the world, and a few for those who run it."""
