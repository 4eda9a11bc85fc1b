# Cores seen from outside: Table 3 by probing; Figures 1 to 3, block diagrams drawn from the records.
from mfmamodels.diagrams import figures as diagram_figures

DIAGRAMS = sorted(diagram_figures())
DIAGRAM_FILES = expand("figures/{figure}.{suffix}", figure=DIAGRAMS, suffix=["png", "pdf"])
PROBED_FILES = expand(
    "results/tables/{table}.{suffix}", table=["table_3", "table_3_paper"], suffix=SUFFIXES
)


rule table_3:
    output:
        table=report(
            "results/tables/table_3.csv",
            caption="captions/table_3.rst",
            category="Tables",
            labels={"table": "Table 3: features found by probing"},
        ),
        others=expand("results/tables/table_3.{suffix}", suffix=["md", "tex"]),
        paper=report(
            "results/tables/table_3_paper.csv",
            caption="captions/table_3_paper.rst",
            category="Tables",
            labels={"table": "Table 3: the paper's entries and ours"},
        ),
        paper_others=expand("results/tables/table_3_paper.{suffix}", suffix=["md", "tex"]),
        evidence="results/probing.txt",
    log:
        "logs/tables/table_3.log",
    benchmark:
        "logs/tables/table_3.tsv"
    conda:
        "../environment.yml"
    threads: 2
    resources:
        mem_mb=2500,
        runtime=20,
    params:
        source=PACKAGE,
    script:
        "../scripts/table_3.py"


# These figures come from records, not from a study's results.
ruleorder: figure_1 > figure
ruleorder: figure_2 > figure
ruleorder: figure_3 > figure


# One rule, thus one target, per figure.
for diagram in DIAGRAMS:

    rule:
        name:
            diagram
        output:
            png=report(
                f"figures/{diagram}.png",
                caption="captions/diagram.rst",
                category="Figures",
                labels={"figure": diagram},
            ),
            pdf=f"figures/{diagram}.pdf",
        log:
            f"logs/figures/{diagram}.log",
        benchmark:
            f"logs/figures/{diagram}.tsv"
        conda:
            "../environment.yml"
        threads: 1
        resources:
            mem_mb=1000,
            runtime=5,
        params:
            figure=diagram,
            source=PACKAGE,
        script:
            "../scripts/diagram.py"
