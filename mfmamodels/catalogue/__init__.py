"""Records of the cores that exist.

A module here with a list ``CORES`` is found by being here; one whose name starts with an
underscore says what evidence a family of cores stands on.
"""
