"""The parser, one module per family of rules."""
