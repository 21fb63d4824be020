"""Schemas above the formats: frames, contract names, compatibility strategies, records from classes."""
