"""Which schedulers are reached, and what is refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.base.errors import InvalidInput
from chaos.campaign import dask_cluster
from chaos.campaign.dask_cluster import Tls, check


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    made = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key")}
    for file in made.values():
        file.write_text("no PEM")
    return made


def test_what_is_whole_is_taken(files: dict[str, Path]) -> None:
    check(None, Tls())
    check("tls://10.0.0.1:8786", Tls(**files))
    check("tls://scheduler.example:8786", Tls(**files))
    for loopback in ("tcp://127.0.0.1:8786", "tcp://localhost:8786", "tcp://[::1]:8786"):
        check(loopback, Tls())
    check("tcp://10.0.0.1:8786", Tls(off=True))


@pytest.mark.parametrize("missing", ["ca", "cert", "key"])
def test_what_is_half_given_is_refused(missing: str, files: dict[str, Path]) -> None:
    del files[missing]
    with pytest.raises(InvalidInput, match=f"needs --tls-{missing} too: both sides show a certificate"):
        check("tls://10.0.0.1:8786", Tls(**files))


@pytest.mark.parametrize(
    ("address", "tls", "says"),
    [
        ("tls://10.0.0.1:8786", Tls(), "needs --tls-ca, --tls-cert, --tls-key too"),
        ("tls://10.0.0.1:8786", Tls(off=True), "--no-tls beside an address of tls"),
        ("tcp://10.0.0.1:8786", Tls(), "is not encrypted"),
        ("tcp://scheduler.example:8786", Tls(), "is not encrypted"),
        ("tcp://127.0.0.1:8786", Tls(ca=Path("x")), "--tls-ca beside tcp"),
        (None, Tls(ca=Path("x"), key=Path("y")), "--tls-ca, --tls-key is for a scheduler that runs elsewhere"),
        (None, Tls(off=True), "--no-tls is for a scheduler that runs elsewhere"),
        ("inproc://1/2/3", Tls(), "expected tls://HOST:PORT"),
        ("10.0.0.1:8786", Tls(), "expected tls://HOST:PORT"),
        ("tcp://10.0.0.1", Tls(off=True), "expected tls://HOST:PORT"),
        ("tcp://10.0.0.1:70000", Tls(off=True), "expected tls://HOST:PORT"),
        ("tcp://10.0.0.1:8786/x", Tls(off=True), "expected tls://HOST:PORT"),
    ],
)
def test_what_is_wrong_is_refused(address: str | None, tls: Tls, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        check(address, tls)


def test_files_that_are_missing_or_no_pem_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"--tls-key .*absent\.pem: there is no such file"):
        check("tls://10.0.0.1:8786", Tls(files["ca"], files["cert"], tmp_path / "absent.pem"))
    reached = dask_cluster.at("tls://127.0.0.1:1", Tls(**files))
    with pytest.raises(InvalidInput, match="no certificates and key as PEM that fit"), reached:
        pass
