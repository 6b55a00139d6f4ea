"""Game days: experiments on a cluster that exists, in an agreed window, which nobody needs to watch and everybody can
stop. :mod:`chaos.definitions.gameday` is the file."""
