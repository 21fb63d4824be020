"""The SQL of the registry, over the database port. Functions take the transaction they run in."""
