"""What every room may use and what knows none of them: errors, paths, units, texts, sockets."""
