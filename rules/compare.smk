# Cores compared pair by pair, on a random product and on studies: target `compare`.
COMPARISONS = ["product", *CONFIG["compare"]["studies"]]


wildcard_constraints:
    comparison="[a-z][a-z0-9_]*",


rule comparison:
    output:
        json="results/compare/{comparison}.json",
        markdown="results/compare/{comparison}.md",
        png=report(
            "results/compare/{comparison}.png",
            caption="captions/compare.rst",
            category="Comparison of cores",
            labels={"compared on": "{comparison}"},
        ),
        pdf="results/compare/{comparison}.pdf",
    log:
        "logs/compare/{comparison}.log",
    benchmark:
        "logs/compare/{comparison}.tsv"
    conda:
        "../environment.yml"
    threads: 2
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        config={key: CONFIG[key] for key in ("seed", "compare", "studies")},
        source=comparison_source,
    script:
        "../scripts/compare.py"


rule compare:
    input:
        expand("results/compare/{comparison}.json", comparison=COMPARISONS),
