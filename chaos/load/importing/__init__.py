"""Workloads made of what a team has: an index template, documents, searches, a workload of OpenSearch Benchmark.

Others wrote what is read here: it is read within bounds, templates are rendered in a process of their own, no program
is run and nothing is downloaded. The result is a workload's file, and for each part whether it was taken.
"""
