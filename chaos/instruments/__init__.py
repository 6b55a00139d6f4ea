"""What is observed while a run lasts: an instrument a file, found by :mod:`chaos.checks.instruments`. See README.md."""
