"""A bundle in use: sessions that answer while they load."""
