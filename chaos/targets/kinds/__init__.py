"""The kinds of targets that come with this package, one file each: ``TARGET`` is an instance of what it is."""
