"""From an address to a store."""

from __future__ import annotations

from pathlib import Path

from chaos.base.errors import InvalidInput
from chaos.campaign.folder_store import FolderStore
from chaos.campaign.s3_store import SCHEME, S3Store
from chaos.campaign.stores import Store


def open_store(address: str) -> Store:
    """A folder, or ``s3://BUCKET/PREFIX``. Raises InvalidInput for any other scheme."""
    if address.startswith(SCHEME):
        return S3Store(address)
    if "://" in address:
        raise InvalidInput(f"store {address}: only folders and s3:// can be proven to refuse a second create")
    return FolderStore(Path(address).expanduser())
