"""The load: an open-loop driver (locust, in a process of its own), its schedule, requests and outcomes.

The runner uses :mod:`.config`, :mod:`.driver` and :mod:`.workload`; :mod:`.engine` and :mod:`.locustfile` live
in the driver's process only, because importing them patches the standard library.
"""
