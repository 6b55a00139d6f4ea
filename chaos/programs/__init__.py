"""Programs of their own that speak REST only, and know neither labs nor faults."""
