"""From an address to a store."""

from __future__ import annotations

import os
from pathlib import Path

from chaos.base.errors import InvalidInput
from chaos.campaign.folder_store import FolderStore
from chaos.campaign.s3_store import SCHEME, S3Store
from chaos.campaign.stores import Store


def open_store(address: str) -> Store:
    """A folder, or ``s3://BUCKET/PREFIX``. Raises InvalidInput for any other scheme, and where a file is in the way."""
    if address.startswith(SCHEME):
        return S3Store(address)
    if "://" in address:
        raise InvalidInput(
            f"store {address}: only folders and s3:// can be proven to refuse a second create",
            remedy="name a folder, or s3://BUCKET/PREFIX",
        )
    folder = Path(address).expanduser()
    paths = (folder, *folder.parents)
    if in_the_way := next((each for each in paths if os.path.exists(each) and not os.path.isdir(each)), None):
        raise InvalidInput(f"store {address}: {in_the_way} is a file, and a folder was expected")
    return FolderStore(folder)
