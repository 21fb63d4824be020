"""One behaviour per file, each of the shape in ``dragoman.client.outcome``."""
