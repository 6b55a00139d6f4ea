"""Statistics over runs: the run is the unit, because failures inside one run cluster.

:mod:`intervals` is arithmetic alone and imports nothing of the project, so that checks may use it.
"""
