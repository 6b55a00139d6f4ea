"""What an experiment runs on: the protocol of a target, its wiring as data, and the labs that we start."""
