"""For one test: the run that this process makes has an id that the test knows."""

import secrets

_drawn = secrets.token_hex
secrets.token_hex = lambda count=None: "c0de" if count == 8 else _drawn(count)
