"""Labs made of containers: for users with a Docker engine, on a Mac, or without root."""
