"""What looks for a store's secrets and objects in files finds them, packed or not, and nothing else."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from storekit import Known, opened

from chaos.base.errors import LabError
from chaos.history import parquet
from chaos.load.importing.reading import zstd
from chaos.targets import keystore, services

SECRETS = {f"s3.client.default.{name}": f"drawn-{name}" for name in ("access_key", "secret_key")}
SECRET = b"Authorization: drawn-secret_key, signed"


class Lab:
    """The folder of a lab with a store, of which nothing runs."""

    def __init__(self, folder: Path, *, answers: bool = True) -> None:
        self.folder, self._answers = folder, answers
        self.topology = SimpleNamespace(services={"store": None}, service_hosts=("store",))
        place = folder / "config" / "a-data"
        place.mkdir(parents=True)
        (place / keystore.NAME).write_bytes(keystore.keystore(SECRETS))
        self.object = self.service("store").folder / "u" / "0" / "translog" / "data" / "translog-3.tlog"
        self.object.parent.mkdir(parents=True)
        self.object.write_bytes(b"what was written")
        (self.object.parent / "empty").touch()

    def service(self, name: str) -> services.Place:
        return services.Place(name, "", self.folder / "services" / name)

    def keys(self, name: str, seconds: float) -> set[str]:
        if not self._answers:
            raise LabError("the store did not list its keys")
        return {"u/0/segments/data/_0.cfe__gX9"}


@pytest.fixture
def known(tmp_path: Path) -> Known:
    found = Known()
    found.learn(Lab(tmp_path / "lab"))  # type: ignore[arg-type]
    return found


def test_what_a_lab_has_is_learnt(known: Known, tmp_path: Path) -> None:
    assert known.secrets == SECRETS
    assert known.objects == {"translog-3.tlog", "_0.cfe__gX9"} and len(known.digests) == 1
    half = Lab(tmp_path / "half", answers=False)
    whole = next(half.folder.glob(f"config/*/{keystore.NAME}")).read_bytes()
    other = half.folder / "config" / "b-data"
    other.mkdir()
    (other / keystore.NAME).write_bytes(whole[:-20])
    found = Known()
    found.learn(half)  # type: ignore[arg-type]
    assert found.secrets == SECRETS and found.objects == {"translog-3.tlog"}


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-1], lambda data: data[1:], lambda data: b"", lambda data: data * 2]
)
def test_what_is_no_whole_keystore_is_not_opened(spoil: Callable[[bytes], bytes]) -> None:
    made = keystore.keystore(SECRETS)
    assert opened(made).keys() == {keystore.SEED, *SECRETS}
    with pytest.raises(ValueError, match="no keystore"):
        opened(spoil(made))


def zipped(data: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside", data)
    return packed.getvalue()


PACK: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: bytes(zstd().compress(data)),
    "zip": zipped,
}


@pytest.mark.parametrize("pack", PACK)
def test_a_secret_is_found_in_a_file_however_it_is_packed(known: Known, tmp_path: Path, pack: str) -> None:
    folder = tmp_path / "run" / "logs"
    folder.mkdir(parents=True)
    (folder / "said.log").write_bytes(PACK[pack](b"nothing " * 500))
    assert known.found_in(tmp_path / "run") == []
    (folder / "said.log").write_bytes(PACK[pack](b"nothing " * 500 + SECRET))
    (found,) = known.found_in(tmp_path / "run")
    assert found == f"s3.client.default.secret_key is in {folder / 'said.log'}"


def test_a_secret_is_found_in_the_arrivals_of_a_history(known: Known, tmp_path: Path) -> None:
    def frames(name: str) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"k": [0, 1], "client": pd.Categorical([name, name])})

    file = tmp_path / "run" / "arrivals.parquet"
    file.parent.mkdir()
    parquet.write(frames("client-a"), file)
    assert known.found_in(file.parent) == []
    parquet.write(frames(SECRETS["s3.client.default.access_key"]), file)
    assert known.found_in(file.parent) == [f"s3.client.default.access_key is in {file}"]


def test_objects_are_found_by_their_names_and_by_what_is_in_them(known: Known, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "another-name").write_bytes(b"what was written")
    (run / "_0.cfe__gX9").write_bytes(b"another content")
    (run / "empty").touch()
    (run / "service-store.log").write_text("PUT 200 /store/u/0/translog/data/translog-3.tlog\n")  # a log names them
    assert known.found_in(run) == [f"an object of the store: {run / name}" for name in ("_0.cfe__gX9", "another-name")]
    assert known.named_in(run) == [f"an object of the store: {run / '_0.cfe__gX9'}"]


def test_a_keystore_is_found_under_any_name(known: Known, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "copied").write_bytes(b"before" + keystore.keystore({}))
    assert known.found_in(run) == [f"a keystore: {run / 'copied'}"]
