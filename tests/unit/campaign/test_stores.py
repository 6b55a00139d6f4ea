"""Stores of campaigns: what each must do, and that one which does not is refused before anything is started."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from chaos.base.errors import InvalidInput
from chaos.campaign.folder_store import FolderStore
from chaos.campaign.opening import open_store
from chaos.campaign.s3_store import S3Store
from chaos.campaign.stores import Absent, Store, StoreError, prove, safe

BUCKET = "runs"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield client


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return FolderStore(tmp_path / "store")
    return S3Store(f"s3://{BUCKET}/campaigns/x", request.getfixturevalue("s3"))


def test_a_store_keeps_what_it_is_given(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    store.put("attempts/k/a/run/plan.json", file)
    assert store.create("cells/k.json", b"first")
    assert store.read("cells/k.json") == b"first"
    store.fetch("attempts/k/a/run/plan.json", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == b"content"
    assert list(store.names("attempts/")) == ["attempts/k/a/run/plan.json"]
    assert list(store.names("cells/")) == ["cells/k.json"]
    assert list(store.names("nothing/")) == []
    store.delete("cells/k.json")
    store.delete("cells/k.json")
    with pytest.raises(Absent):
        store.read("cells/k.json")
    with pytest.raises(Absent):
        store.fetch("cells/k.json", tmp_path / "none")


def test_the_first_create_wins_and_stays(store: Store) -> None:
    assert store.create("cells/k.json", b"first")
    assert not store.create("cells/k.json", b"second")
    assert store.read("cells/k.json") == b"first"


def test_of_many_creates_at_once_one_wins(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda number: store.create("cells/k.json", b"%d" % number), range(40)))
    assert sum(won) == 1
    assert store.read("cells/k.json") == b"%d" % won.index(True)


def test_a_store_that_refuses_a_second_create_is_proven_and_left_as_it_was(store: Store) -> None:
    prove(store)
    assert list(store.names("probes/")) == []


def test_an_s3_that_ignores_if_none_match_is_refused(s3: Any) -> None:
    """A control: the very server of the tests above, to which the header is not sent, so it does what old ones do."""

    def ignore(params: Any, **_: Any) -> None:
        assert params["headers"].pop("If-None-Match") == "*"

    s3.meta.events.register("before-call.s3.PutObject", ignore)
    store = S3Store(f"s3://{BUCKET}/x", s3)
    with pytest.raises(InvalidInput, match="it created the same name twice") as refused:
        prove(store)
    assert refused.value.exit_code == 2 and refused.value.remedy
    assert list(store.names("")) == []


def test_a_file_s_name_survives_a_loss_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[Path, bool]] = []
    name = tmp_path / "store" / "attempts" / "plan.json"
    monkeypatch.setattr("chaos.campaign.folder_store.fsync_folder", lambda at: synced.append((at, name.is_file())))
    (tmp_path / "file").write_bytes(b"content")
    FolderStore(tmp_path / "store").put("attempts/plan.json", tmp_path / "file")
    assert synced == [(name.parent, True)]


class Overwriting(FolderStore):
    """Refuses a second create, and writes it all the same."""

    def create(self, name: str, data: bytes) -> bool:
        new = not self._at(name).exists()
        self._at(name).parent.mkdir(parents=True, exist_ok=True)
        self._at(name).write_bytes(data)
        return new


class Racing(FolderStore):
    """Looks first and writes then: right for one writer after the other alone."""

    def create(self, name: str, data: bytes) -> bool:
        import time

        if self._at(name).exists():
            return False
        time.sleep(0.05)
        self._at(name).parent.mkdir(parents=True, exist_ok=True)
        self._at(name).write_bytes(data)
        return True


@pytest.mark.parametrize(
    ("kind", "says"), [(Overwriting, "and yet the content became"), (Racing, "of 8 creates of one name at once")]
)
def test_a_store_that_only_seems_to_refuse_is_refused(kind: type[FolderStore], says: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=says):
        prove(kind(tmp_path))


def failing(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fails)


@pytest.mark.parametrize(
    ("call", "number", "says"),
    [
        ("fsync", errno.ENOSPC, "No space left on device"),
        ("link", errno.EROFS, "Read-only file system"),
        ("link", errno.EPERM, "Operation not permitted"),  # a file system without hard links
    ],
)
def test_a_folder_that_cannot_be_written_is_refused_with_the_reason(
    call: str, number: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path)
    failing(monkeypatch, call, number)
    with pytest.raises(StoreError, match=says):
        store.create("cells/k.json", b"x")
    with pytest.raises(InvalidInput, match=says):
        prove(store)
    monkeypatch.undo()
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
    with pytest.raises(Absent):
        store.read("cells/k.json")


def test_a_create_that_dies_leaves_no_half_of_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a crash between writing and naming leaves is a file that no reader is told of."""
    store = FolderStore(tmp_path)

    class Died(BaseException):
        pass

    def dies(*_: Any, **__: Any) -> None:
        raise Died

    monkeypatch.setattr(os, "link", dies)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # nor does a dead process tidy up
    with pytest.raises(Died):
        store.create("cells/k.json", b"whole")
    monkeypatch.undo()
    assert [file.name[:5] for file in (tmp_path / "cells").iterdir()] == [".new-"]
    assert list(store.names("cells/")) == []
    assert store.create("cells/k.json", b"another")


def losing(s3: Any, answers: int, *, carried_out: bool) -> list[str]:
    """Of so many creates the answer is lost on its way, whether or not the server has done what it was asked."""
    from botocore.exceptions import ReadTimeoutError
    from moto.core.models import botocore_stubber

    lost: list[str] = []

    def lose(request: Any, **_: Any) -> Any:
        if len(lost) == answers or "If-None-Match" not in request.headers:
            return None
        lost.append(request.url)
        if carried_out:
            botocore_stubber("before-send.s3.PutObject", request)
        raise ReadTimeoutError(endpoint_url=request.url)

    s3.meta.events.register_first("before-send.s3.PutObject", lose)
    return lost


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_create_whose_answer_was_lost_is_ours_and_no_others(s3: Any, carried_out: bool) -> None:
    store = S3Store(f"s3://{BUCKET}/x", s3)
    lost = losing(s3, 1, carried_out=carried_out)
    assert store.create("cells/k.json", b"mine") is True
    assert len(lost) == 1 and store.read("cells/k.json") == b"mine"
    assert store.create("cells/k.json", b"mine") is False  # the same bytes, and not of this create


def test_a_create_whose_answer_was_lost_where_another_had_won_is_not_ours(s3: Any) -> None:
    S3Store(f"s3://{BUCKET}/x", s3).create("cells/k.json", b"theirs")
    lost = losing(s3, 1, carried_out=True)
    store = S3Store(f"s3://{BUCKET}/x", s3)
    assert store.create("cells/k.json", b"mine") is False
    assert len(lost) == 1 and store.read("cells/k.json") == b"theirs"


def test_a_refused_create_that_cannot_be_looked_at_is_no_answer_and_one_that_is_gone_is_none_of_ours() -> None:
    class Client:
        status = 403

        def _refuse(self, status: int, operation: str) -> Any:
            from botocore.exceptions import ClientError

            raise ClientError({"Error": {"Code": "x"}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)

        def put_object(self, **_: Any) -> Any:
            self._refuse(412, "PutObject")

        def head_object(self, **_: Any) -> Any:
            self._refuse(self.status, "HeadObject")

    client = Client()
    store = S3Store(f"s3://{BUCKET}", client)
    with pytest.raises(StoreError, match=r"cannot read cells/k\.json"):
        store.create("cells/k.json", b"x")
    client.status = 404
    assert store.create("cells/k.json", b"x") is False


@pytest.mark.parametrize("status", [409, 412])
def test_an_upload_that_s3_refuses_was_not_made(status: int, tmp_path: Path) -> None:
    """Of a create alone these say that the name exists: an upload that passed for made would be committed."""
    from botocore.exceptions import ClientError

    class Client:
        def put_object(self, **_: Any) -> None:
            answer: Any = {"Error": {"Code": "x"}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(answer, "PutObject")

    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(StoreError, match=rf"cannot write attempts/k/a/run/plan\.json: x \({status}\)"):
        S3Store(f"s3://{BUCKET}", Client()).put("attempts/k/a/run/plan.json", tmp_path / "plan.json")


def test_s3_without_the_bucket_says_so(s3: Any) -> None:
    with pytest.raises(InvalidInput, match="NoSuchBucket"):
        prove(S3Store("s3://absent-bucket/x", s3))


def test_an_s3_that_is_full_or_slow_says_so(s3: Any) -> None:
    from botocore.exceptions import ReadTimeoutError

    class Client:
        def put_object(self, **_: Any) -> None:
            raise ReadTimeoutError(endpoint_url="https://s3")

    with pytest.raises(StoreError, match="ReadTimeoutError"):
        S3Store(f"s3://{BUCKET}", Client()).create("cells/k.json", b"x")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../b", "", "a\\b", "a\0b", "a/./../b"])
def test_names_stay_inside(name: str) -> None:
    with pytest.raises(StoreError):
        safe(name)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("gs://bucket/x", "only folders and s3://"),
        ("s3://", "expected s3://BUCKET/PREFIX"),
        ("s3://UPPER/x", "expected"),
    ],
)
def test_addresses_that_are_none_are_refused(address: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        open_store(address)


def test_an_address_without_a_scheme_is_a_folder(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    assert isinstance(store, FolderStore) and store.folder == tmp_path


def test_what_people_put_beside_attempts_is_none(tmp_path: Path) -> None:
    import campaignkit as kit

    file = kit.write_campaign(tmp_path, tmp_path / "store", 1)
    cell, records = kit.matrix_of(file).cells[0], kit.records_at(tmp_path / "store")
    attempt = records.begin(cell, {}, 60.0)
    (tmp_path / "store" / "attempts" / cell.key / "notes.txt").write_text("seen on Monday")
    (tmp_path / "store" / "attempts" / cell.key / attempt / "run").mkdir()
    assert [each.id for each in records.attempts(cell.key)] == [attempt]


def test_a_whole_campaign_in_s3(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts, commits, what is fetched of them and what is found when an object changes."""
    import campaignkit as kit
    import synthetic

    from chaos.campaign import progress
    from chaos.campaign.records import Records

    records = Records(S3Store(f"s3://{BUCKET}/campaign", s3))
    file = kit.write_campaign(tmp_path, f"s3://{BUCKET}/campaign", 1)
    matrix = kit.matrix_of(file)
    commits = [kit.commit_story(records, cell, tmp_path, synthetic.slow_zone()) for cell in matrix.cells]
    assert records.committed() == {cell.key for cell in matrix.cells}
    again = commits[0].__class__(**{**vars(commits[0]), "attempt": "another"})
    assert not records.commit(again) and records.commit(commits[0])  # the first one's own repeat is no other
    for commit in commits:
        folder = records.folder(commit, tmp_path / "cache")
        assert (folder / "history" / "arrivals.bin").stat().st_size > 1000
        assert records.verify(commit, tmp_path / "cache") == []
    assert progress.of_cells(matrix.cells, records, matrix.file.retry).tally.startswith("2 of 2 cells committed")
    base = f"campaign/attempts/{commits[0].key}/{commits[0].attempt}/run"
    s3.put_object(Bucket=BUCKET, Key=f"{base}/clean.json", Body=b"{}")
    s3.delete_object(Bucket=BUCKET, Key=f"{base}/plan.json")
    found = records.verify(commits[0], tmp_path / "cache")
    assert [each.partition(":")[0] for each in sorted(found)] == ["clean.json", "plan.json is missing"]
    with pytest.raises(StoreError):
        records.folder(commits[0], tmp_path / "a-new-cache")


def test_two_that_verify_at_once_do_not_read_each_others_files(tmp_path: Path) -> None:
    """Of a store that is not on this machine each fetches what it looks at, into the same cache."""
    import campaignkit as kit
    import synthetic

    from chaos.campaign.records import Records

    class Remote(FolderStore):
        meanwhile: Any = None

        def local(self, name: str) -> None:
            return None

        def fetch(self, name: str, file: Path) -> None:
            super().fetch(name, file)
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                assert meanwhile() == []

    store, cache = Remote(tmp_path / "store"), tmp_path / "cache"
    records, matrix = Records(store), kit.matrix_of(kit.write_campaign(tmp_path, tmp_path / "store", 1))
    one, other = (kit.commit_story(records, cell, tmp_path, synthetic.slow_zone()) for cell in matrix.cells)
    store.meanwhile = lambda: records.verify(other, cache)
    assert records.verify(one, cache) == []
    assert list(cache.iterdir()) == [], "nothing of it is kept"
