"""Clusters that exist: what is seen of them, held against their file, and the draft of such a file."""
