"""The common layer: frozen values, ports and errors. It needs only the standard library."""
