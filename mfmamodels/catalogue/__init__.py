"""Records of the cores that exist. A module here with a list ``CORES`` is found by being here."""
