"""Studies: one file each, found by being here.

A study is a module `applications/<name>.py` whose name does not start with an underscore. Nothing
else has to be edited: its options, its jobs and its figures are read from the module, and two
generic rules of the pipeline serve every study. The module defines

`TITLE` : str
    One line for people.
`SCHEMA` : dict
    JSON schema (draft 2020-12) of its section of the configuration, `studies: <name>:`. An object
    with `additionalProperties: false`, and a `default` and a `description` for every property.
`jobs(config) -> list of str`
    Names of the independent computations, normally names of cores ("MI300X/fp16"). A colon and a
    word may follow ("MI300X/fp16:rd31"), and names without a slash are free ("double"). Job J is
    stored in results/<name>/<J with "_" for "/" and "-" for ":">.nc.
`run(job, config, seed, progress=None) -> xarray.Dataset`
    Everything numerical; the same (job, config, seed) give the same bits. `progress(done, total,
    text)` may be called as often as convenient.
`figures(config) -> list of str`
    Names of the figures, known before anything runs.
`plot(results, config) -> dict of str to matplotlib.figure.Figure`
    Draws those figures from `results`, a dict from job to dataset, and computes nothing heavy.
    Where there are many, give functions without arguments that draw them: the pipeline wants one
    at a time.

and may define

`CAPTIONS` : dict of str to str
    A caption (reStructuredText) per figure, shown in the report.
`claims(results, config) -> list of dict`
    What the paper says and what was found: id, section, claim, paper, ours, tolerance, verdict.
`compare_published(results, folder, config) -> list of tuple`
    Rows (file, n, published, ours) for the published result files in `folder`; `published` as the
    text printed there.
`add_arguments(parser)`, `main(options, config) -> int or None`
    Options of its own for `python -m applications <name>`, and what they do: an exit status, or
    None to run the study as usual.

`config` is the study's own section with its defaults filled in. An option whose name ends in
`_file` names a file to read, or is "": when its content changes, the study is computed again.

A module must import quickly, since all of them are imported whenever the pipeline starts: numba,
xarray and matplotlib belong inside the functions. A study may keep helpers in modules whose names
start with an underscore; its results are computed again when its module, a helper that it imports
or the package mfmamodels changes.
"""
