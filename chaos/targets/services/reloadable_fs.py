"""A folder that all nodes share, whose repository can be told while nodes run to be slow, or to fail.

The type ``reloadable-fs`` is in the server of 2.12.0, 2.19.6, 3.4.0 and 3.8.0, for its own tests. ``PUT
_snapshot/NAME`` changes ``repositories.slowdown`` (whole seconds for each write) and ``repositories.fail.rate`` (%).
"""

from __future__ import annotations

from chaos.targets.services.fs import Folder

KIND = Folder("reloadable-fs", "a folder of this machine that all nodes share, whose settings can change meanwhile")
