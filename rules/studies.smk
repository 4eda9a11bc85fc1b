# Three rules that serve every study: its jobs, its figures, its claims.


rule study:
    input:
        files=study_files,
    output:
        result="results/{study}/{job}.nc",
    log:
        "logs/{study}/{job}.log",
    benchmark:
        "logs/{study}/{job}.tsv"
    conda:
        "../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        study=study_values,
        job=study_job,
        source=study_source,
    script:
        "../scripts/study.py"


rule figure:
    input:
        results=figure_results,
    output:
        png=report(
            "figures/{figure}.png",
            caption="captions/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        pdf="figures/{figure}.pdf",
    log:
        "logs/figures/{figure}.log",
    benchmark:
        "logs/figures/{figure}.tsv"
    conda:
        "../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        study=figure_values,
        caption=figure_caption,
        source=figure_source,
    script:
        "../scripts/figure.py"


rule study_claims:
    input:
        results=study_results,
    output:
        claims="results/{study}/claims.json",
    log:
        "logs/{study}/claims.log",
    benchmark:
        "logs/{study}/claims.tsv"
    conda:
        "../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        study=study_values,
        source=study_source,
    script:
        "../scripts/study_claims.py"
