"""What an editor asks about a model. No protocol in here: offsets in, spans out."""
