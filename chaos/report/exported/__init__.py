"""Runs where people look: documents for OpenSearch Dashboards, series for Prometheus and Grafana.

``catalogue`` holds every name that leaves this package, ``source`` what a run has to say under these names, ``ndjson``
and ``openmetrics`` write it. docs/export.md is made of the catalogue by ``python -m chaos.report.exported``.
"""
