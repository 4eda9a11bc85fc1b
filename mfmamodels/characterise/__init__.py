"""What is learned of a core from outside: the paper's vectors, recordings, samples, probes."""
