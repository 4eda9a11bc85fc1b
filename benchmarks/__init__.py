"""How fast the kernels are: ``make bench``, or ``python -m benchmarks --help``."""
