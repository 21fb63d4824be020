"""Message sequences: a large object is sent in parts and handled as a whole."""
