# What the results say: all claims in one place, and the comparison with published result files.


rule claims:
    input:
        expand("results/{study}/claims.json", study=CLAIMING),
    output:
        claims="results/claims.json",
        page=report(
            "results/claims.html",
            caption="captions/claims.rst",
            category="Claims of the paper",
            labels={"table": "all claims"},
        ),
    log:
        "logs/claims.log",
    benchmark:
        "logs/claims.tsv"
    conda:
        "../environment.yml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    params:
        studies=CLAIMING,
    script:
        "../scripts/claims.py"


# The rows are written before they are judged: Snakemake removes what a failed job wrote, and
# whoever sees a failure wants to look at the rows.
rule published_rows:
    input:
        results=[file for name in COMPARING for file in results_of(name)],
        files=PUBLISHED_FILES,
    output:
        rows=report(
            "results/published.csv",
            caption="captions/published.rst",
            category="Claims of the paper",
            labels={"table": "published rows"},
        ),
    log:
        "logs/published_rows.log",
    benchmark:
        "logs/published_rows.tsv"
    conda:
        "../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        studies=[asdict(STUDIES[name]) for name in COMPARING],
        source=[SOURCE[name] for name in COMPARING],
        folder=CONFIG["published_data"],
    script:
        "../scripts/published_rows.py"


rule published:
    input:
        rows="results/published.csv",
    output:
        summary="results/published.json",
    log:
        "logs/published.log",
    benchmark:
        "logs/published.tsv"
    conda:
        "../environment.yml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    script:
        "../scripts/published.py"
