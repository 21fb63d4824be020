"""From untyped messages to the schema that they seem to follow."""
