"""Whether a reader's schema takes all that a writer's schema allows: a structural diff with named rules."""
