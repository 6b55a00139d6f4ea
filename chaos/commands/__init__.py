"""Commands in modules of their own; :mod:`chaos.cli` adds them to the application."""
