"""Labs: targets that we start ourselves and take away again. :mod:`.kinds` knows them by name."""
