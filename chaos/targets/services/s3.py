"""An object store that speaks S3: moto in a process of the lab, which keeps everything in memory."""

from __future__ import annotations

import secrets
import sys
from typing import Any

from chaos.provision import s3
from chaos.targets.services import Place
from chaos.targets.wiring import SERVICE

REGION = "us-east-1"


class Store:
    says = "moto, a stand-in for S3: a process of this machine with all objects in memory, which checks no signature"
    plugins = (s3.PLUGIN,)

    def lacking(self) -> tuple[str, str] | None:
        return (why, s3.REMEDY) if (why := s3.lacking()) is not None else None

    def repository(self, place: Place, under: str = "") -> dict[str, Any]:
        """The bucket has the service's name. 3.8.0 asks for encryption by AES256 where nothing is said of it."""
        made = {"type": "s3", "bucket": place.name, "region": REGION, "server_side_encryption_type": "bucket_default"}
        return made | ({"base_path": under} if under else {})

    def node_settings(self, place: Place) -> dict[str, Any]:
        """Buckets are named in paths: there are no names to resolve in a lab."""
        client = "s3.client.default"
        return {
            f"{client}.endpoint": f"http://{place.address}",
            f"{client}.path_style_access": True,
            f"{client}.region": REGION,
        }

    def secrets(self) -> dict[str, str]:
        """The server checks no signature, but a client without credentials signs nothing."""
        drawn = {"access_key": f"OSCHAOS{secrets.token_hex(6).upper()}", "secret_key": secrets.token_urlsafe(30)}
        return {f"s3.client.default.{name}": value for name, value in drawn.items()}

    def command(self, place: Place) -> tuple[str, ...]:
        host, _, port = place.address.partition(":")
        # -P: nodes may write to the folder in which it is started, so nothing is to be imported from it
        return (sys.executable, "-P", "-m", "chaos.targets.services.s3_server", host, port or str(SERVICE), place.name)


KIND = Store()
