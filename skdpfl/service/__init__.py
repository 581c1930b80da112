"""A silo's gate as a service run by the hospital, with its own user, files and log.

_settings    ``hospital.toml``: what an operator writes down, checked key by key
_tables      the records that it names, from a CSV file or one query of SQLite
_serve       letters in at a socket, answers out
commands     ``skdpfl silo init``, ``serve``, ``check``, ``pending``, ``approve``, ``audit``, ...
"""
