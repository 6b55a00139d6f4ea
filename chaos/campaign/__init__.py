"""Many runs: drawn from a seed, made smaller until only what fails is left, repeated."""
