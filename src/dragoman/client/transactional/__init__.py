"""Messages and a database that agree: idempotent receiver, outbox, and the transactions of brokers."""
