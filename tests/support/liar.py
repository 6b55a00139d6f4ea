"""Object stores that lie, in the place of a lab's own: for controls of what must find them.

``python -P liar.py LIE ADDRESS PORT BUCKET`` is the store's process. ``python liar.py run LIE ARGUMENT...`` is
``opensearch-chaos ARGUMENT...`` whose labs have such a store.

The lies, each told to nodes only, and as soon as the store has answered for SOUND seconds, so that the cluster starts:

* ``forgets-translog``, ``forgets-segments``: it answers 200 to each tenth PUT of such a file, and does not keep it.
* ``loses-translog``: it keeps each file of the translog, and has it no more a moment after it has said so.
* ``old-metadata``: it lists no metadata of segments and translogs that was written since: who asks for the newest gets
  an older one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

SOUND = 20.0
EACH = 10
LOST_AFTER = 0.3
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


class Liar:
    """A WSGI application before the store's own."""

    def __init__(self, lie: str, store: Any) -> None:
        self._lie, self._store = lie, store
        self._began, self._seen = time.monotonic(), 0
        self._hidden: set[str] = set()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        verb, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        of_node = "credential" in str(environ.get("HTTP_AUTHORIZATION", "")).lower()  # ours signs nothing
        if time.monotonic() - self._began < SOUND or not of_node:
            return self._store(environ, start_response)  # type: ignore[no-any-return]
        if verb == "PUT" and self._lie.startswith("forgets-") and f"/{self._lie[8:]}/data/" in path:
            self._seen += 1
            if self._seen % EACH == 0:
                environ["wsgi.input"].read()
                start_response("200 OK", [("Content-Length", "0"), ("ETag", '"d41d8cd98f00b204e9800998ecf8427e"')])
                return [b""]
        if verb == "PUT" and self._lie == "loses-translog" and "/translog/data/" in path:
            threading.Timer(LOST_AFTER, self._lose, (dict(environ), path)).start()
        if verb == "PUT" and self._lie == "old-metadata" and "/metadata/" in path:
            self._hidden.add(path.lstrip("/").partition("/")[2])
        if verb == "GET" and self._lie == "old-metadata" and "list-type=2" in environ.get("QUERY_STRING", ""):
            return self._older(environ, start_response)
        return self._store(environ, start_response)  # type: ignore[no-any-return]

    def _lose(self, environ: dict[str, Any], path: str) -> None:
        """As another client would take it away, with no line of the store's log that nodes could have caused."""
        from moto.s3.models import s3_backends

        bucket, _, key = path.lstrip("/").partition("/")
        for account in s3_backends.values():
            for backend in account.values():
                if bucket in backend.buckets:
                    backend.delete_object(bucket, key)

    def _older(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """The same list without what is hidden: all is asked for, and cut to what was wanted here."""
        words = [each for each in environ["QUERY_STRING"].split("&") if each]
        most = next((int(each.partition("=")[2]) for each in words if each.startswith("max-keys=")), 1000)
        kept = "&".join([*(each for each in words if not each.startswith("max-keys=")), "max-keys=1000"])
        told: list[Any] = []

        def begin(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            told.extend((status, headers))

        body = b"".join(self._store({**environ, "QUERY_STRING": kept}, begin))
        if told[0].startswith("200"):
            ElementTree.register_namespace("", NAMESPACE)
            page = ElementTree.fromstring(body)
            contents = [each for each in page if each.tag.endswith("}Contents")]
            wanted = [each for each in contents if _key(each) not in self._hidden][:most]
            for each in contents:
                if each not in wanted:
                    page.remove(each)
            for each in page:
                if each.tag.endswith("}KeyCount"):
                    each.text = str(len(wanted))
            body = ElementTree.tostring(page, encoding="utf-8", xml_declaration=True)
        headers = [each for each in told[1] if each[0].lower() != "content-length"]
        start_response(told[0], [*headers, ("Content-Length", str(len(body)))])
        return [body]


def _key(contents: ElementTree.Element) -> str:
    return next(each.text or "" for each in contents if each.tag.endswith("}Key"))


def serve(lie: str, *arguments: str) -> None:
    from chaos.targets.services import s3_server

    made = s3_server.application
    s3_server.application = lambda bucket: Liar(lie, made(bucket))
    sys.argv = ["s3_server", *arguments]
    s3_server.main()


def run(lie: str, *arguments: str) -> None:
    from chaos import cli
    from chaos.targets.services import Place, s3

    own = s3.Store.command

    def lying(self: s3.Store, place: Place) -> tuple[str, ...]:
        return (sys.executable, "-P", str(Path(__file__).resolve()), lie, *own(self, place)[4:])

    s3.Store.command = lying  # type: ignore[method-assign]
    sys.argv = ["opensearch-chaos", *arguments]
    cli.main()


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*sys.argv[2:])
    else:
        serve(*sys.argv[1:])
