"""A cluster that is only looked at: samples by GETs for a while, and what they come to."""
