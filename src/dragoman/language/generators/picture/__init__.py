"""Pictures of a model: the system in the notation of the Enterprise Integration Patterns, and its flows."""
