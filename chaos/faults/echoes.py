"""Questions that a node answers with as many bytes as it was asked with: what fills a link in both directions.

OpenSearch's keep-alive comes back byte for byte, but each costs the node a turn of its event loop, so that a row of
them carries some 300 kB/s and no more. Neither protocol has an echo of any size; both *quote* a question that they
cannot answer, though: the transport an action that nobody handles (``ActionNotFoundTransportException``, answered by
``InboundHandler`` without a task or a thread of a pool), HTTP a path that does not exist. A question is therefore a
quoted part and a padding that nobody reads, as long as it takes for question and answer to be of one length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

Read = Callable[[int], bytes]
"""At most so many bytes, as they come; raises at the end of the stream."""

ACTION = "opensearch-chaos:probe/"
TRANSPORT_HEADER = struct.Struct(">2siqbii")
"""ES, length of the rest, request id, status, version, length of the variable header (``TcpHeader``)"""

VERSION = 2_19_00_99 ^ 0x08000000
"""2.19.0 on the wire (``Version.MASK``): what every 2.19 and 3.x node accepts from an older neighbour."""

ALIKE = 0.1
"""How far, in parts of the question, an answer may differ in length from it."""


class Transport:
    """A request for an action that nobody handles."""

    LONGEST = 16384

    def question(self, quoted: int, padding: int) -> bytes:
        """``quoted`` bytes of name beside the prefix, ``padding`` bytes of content."""
        name = (ACTION + "x" * quoted).encode()
        # request headers, response headers, features: none; then the action (``Header.finishParsingHeader``)
        variable = b"\0\0\0" + _vint(len(name)) + name
        length = TRANSPORT_HEADER.size - 6 + len(variable) + padding
        return TRANSPORT_HEADER.pack(b"ES", length, 1, 0, VERSION, len(variable)) + variable + bytes(padding)

    @staticmethod
    def answer(read: Read) -> int:
        """Bytes of one message, all of them read."""
        head = _exactly(read, 6)
        length: int = struct.unpack(">i", head[2:])[0]
        if head[:2] != b"ES" or length < 0:
            raise EOFError("not a message")
        _exactly(read, length)
        return len(head) + length


class Http:
    """A request for a path that does not exist, with these headers."""

    LONGEST = 3000
    """the longest first line of a request is 4 KiB (``http.max_initial_line_length``)"""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "probe", **headers}.items())

    def request(self, path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\n{self._headers}\r\n".encode()

    def question(self, quoted: int, padding: int) -> bytes:
        return (
            f"POST /_opensearch-chaos/probe/{'x' * quoted} HTTP/1.1\r\n{self._headers}"
            f"Content-Type: application/json\r\nContent-Length: {padding}\r\n\r\n"
        ).encode() + b" " * padding

    @staticmethod
    def answer(read: Read) -> int:
        data = b""
        while b"\r\n\r\n" not in data:
            data += read(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        _exactly(read, length - len(body))
        return len(head) + 4 + length


def _vint(number: int) -> bytes:
    """``StreamOutput.writeVInt``: seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _exactly(read: Read, size: int) -> bytes:
    parts = []
    while size > 0:
        parts.append(read(size))
        size -= len(parts[-1])
    return b"".join(parts)
