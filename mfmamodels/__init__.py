"""Bit-accurate models of AMD matrix cores and NVIDIA tensor cores."""

__version__ = "0.1.0"
