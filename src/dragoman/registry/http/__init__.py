"""The registry over HTTP: the contract API, the subject API, and OpenSchema, over one service."""
