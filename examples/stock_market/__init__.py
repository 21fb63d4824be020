"""The movement of shares: asked for by a page outside, answered by orchestrators inside."""
