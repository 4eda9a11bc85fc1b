"""Subcommands of ``python -m mfmamodels``.

A module here is found by being here. It has ``add_parser(subparsers)``, which declares its
arguments and sets ``main``, a function of the parsed arguments that returns the exit status.
Modules import nothing heavy at the top, so that ``--help`` stays fast.
"""
