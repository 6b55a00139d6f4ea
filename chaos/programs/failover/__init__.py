"""The zonal failover controller: a program of its own that speaks only OpenSearch's REST API.

Imports nothing of labs and faults, so it can be pointed at any cluster.
"""
