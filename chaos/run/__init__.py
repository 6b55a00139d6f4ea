"""One run from plan to report, and what surrounds it: guards, room on disks, labs used again, a second run."""
