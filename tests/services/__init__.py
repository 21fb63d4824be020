"""Real servers for tests: installed if missing, started on free ports, stopped by their own process ids."""
