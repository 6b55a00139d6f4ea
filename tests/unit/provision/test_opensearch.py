"""The OpenSearch home: the lock file's shape, atomic assembly, offline use, and homes that users bring."""

from __future__ import annotations

import errno
import json
import os
import re
import tarfile
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.base.errors import InvalidInput, ProvisionError
from chaos.provision import fetch, lock, maven, opensearch
from chaos.provision.opensearch import ensure_opensearch

SMALL = lock.Lock(
    version="3.8.0",
    java=21,
    files=tuple(
        lock.LockedFile(to, maven.Coordinates.parse(coordinates), "", 0)
        for to, coordinates in (
            ("lib", "org.opensearch:opensearch:3.8.0"),
            ("agent", "org.opensearch:opensearch-agent:3.8.0"),
            ("modules/transport-netty4", "org.opensearch.plugin:transport-netty4-client:3.8.0"),
            ("modules/analysis-common", "org.opensearch.plugin:analysis-common:3.8.0"),
        )
    ),
    modules=(
        lock.Module("transport-netty4", "d", "c.N", grants=('java.net.SocketPermission "*", "connect"',)),
        lock.Module("analysis-common", "d", "c.A", extends=("lang-painless",)),
    ),
    digest="small",
)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv(opensearch.VARIABLE, raising=False)
    monkeypatch.setenv("OPENSEARCH_CHAOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, cache: Path) -> list[int]:
    """A lock of four tiny jars whose fetching only writes them; the list has one entry per fetch."""
    fetched: list[int] = []

    def pretend(title: str, files: list[fetch.Wanted], *, progress: bool = True) -> None:
        fetched.append(len(files))
        for file in files:
            fetch.open_folder(fetch.store())
            with zipfile.ZipFile(fetch.stored(file), "w", zipfile.ZIP_DEFLATED) as jar:
                # of one date, as published: fetched again two seconds later it has the same bytes
                entry = zipfile.ZipInfo("META-INF/MANIFEST.MF", (2026, 1, 1, 0, 0, 0))
                jar.writestr(entry, file.name * 100, zipfile.ZIP_DEFLATED)
            fetch.stored(file).chmod(0o644)

    monkeypatch.setattr(lock, "read", lambda version: SMALL)
    monkeypatch.setattr(fetch, "fetch_all", pretend)
    return fetched


def test_every_lock_file_is_whole() -> None:
    assert lock.DEFAULT_VERSION in lock.versions()
    for version in lock.versions():
        locked = lock.read(version)
        folders = {file.to for file in locked.files}
        assert "lib" in folders and ("agent" in folders) is (locked.java >= 21)
        parts = {f"modules/{module.name}" for module in locked.modules} | {f"plugins/{name}" for name in locked.plugins}
        assert folders - {"lib", "agent"} == parts
        assert all(re.fullmatch(r"[0-9a-f]{64}", file.sha256) and file.size > 0 for file in locked.files)
        names = [f"{file.to}/{file.coordinates.file_name}" for file in locked.files]
        assert len(names) == len(set(names))
        known = {module.name for module in locked.modules}
        assert all(set(module.extends) <= known for module in locked.modules)
        assert any("connect" in grant for m in locked.modules if m.name == "transport-netty4" for grant in m.grants)


def test_lock_files_hold_no_addresses() -> None:
    for version in lock.versions():
        text = lock.lock_path(version).read_text()
        assert "//" not in text and "http" not in re.sub(r"netty-codec-http\d?|http(async)?c\w+", "", text)
        assert text == lock.dump(json.loads(text))


def test_a_plugin_that_is_published_as_a_jar_has_a_lock_file_of_its_own_so_that_homes_without_it_stay() -> None:
    locked = lock.read(lock.DEFAULT_VERSION)
    (plugin,) = locked.assembled
    assert plugin.name == "repository-s3" and "connect" in (plugin.policy() or "")
    path = lock.lock_path(lock.DEFAULT_VERSION, plugin.name)
    assert path.read_text() == lock.dump(json.loads(path.read_text())) and "//" not in path.read_text()
    files = [file for file in locked.files if file.plugin == plugin.name]
    assert {file.machine for file in files} == {None, "x86_64", "aarch64"}
    assert 0 < locked.sized(plugin.name) < 25e6
    assert "repository-s3" not in lock.lock_path(lock.DEFAULT_VERSION).read_text()
    lib = {file.coordinates.project for file in locked.files if file.to == "lib"}
    assert not lib & {file.coordinates.project for file in files}  # jar hell would stop a node
    assert not any(lock.read(version).assembled for version in lock.versions() if version != lock.DEFAULT_VERSION)


def test_a_plugin_of_jars_gets_its_descriptor_its_policy_and_what_is_for_this_machine(
    small: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    of = "plugins/repository-s3"
    jars = ["org.x:repository-s3:3.8.0", "org.x:crt:1.0:linux-x86_64", "org.x:crt:1.0:linux-aarch_64"]
    files = tuple(lock.LockedFile(of, maven.Coordinates.parse(jar), "0" * 64, 1) for jar in jars)
    whole = replace(
        SMALL,
        files=(*SMALL.files, *files),
        assembled=(lock.REPOSITORY_S3,),
        digests={lock.REPOSITORY_S3.name: "content of its lock"},
    )
    monkeypatch.setattr(lock, "read", lambda version: whole)
    monkeypatch.setattr(lock, "machine", lambda: "aarch64")
    plain, stored = ensure_opensearch(), ensure_opensearch(plugins=["repository-s3"])
    assert plain.path != stored.path and (plain.plugins, stored.plugins) == ((), ("repository-s3",))
    folder = stored.path / of
    assert {jar.name for jar in folder.glob("*.jar")} == {"repository-s3-3.8.0.jar", "crt-1.0-linux-aarch_64.jar"}
    assert (
        "classname=org.opensearch.repositories.s3.S3RepositoryPlugin"
        in (folder / "plugin-descriptor.properties").read_text()
    )
    assert "SocketPermission" in (folder / "plugin-security.policy").read_text()
    monkeypatch.setattr(lock, "read", lambda version: replace(whole, digests={lock.REPOSITORY_S3.name: "another"}))
    assert ensure_opensearch().path == plain.path
    assert ensure_opensearch(plugins=["repository-s3"]).path != stored.path


def test_no_jar_is_twice_on_one_class_path() -> None:
    """Jar hell stops a node: what lib/ has must not be in a module, nor what an extended module has."""
    locked = lock.read(lock.DEFAULT_VERSION)
    jars: dict[str, set[str]] = {}
    for file in locked.files:
        jars.setdefault(file.to, set()).add(file.coordinates.project)
    for module in locked.modules:
        own = jars[f"modules/{module.name}"]
        assert not own & jars["lib"]
        assert all(not own & jars[f"modules/{name}"] for name in module.extends)


def test_a_plugin_comes_when_it_is_asked_for_without_its_configuration_and_its_ties_to_what_is_not_here(
    small: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinates = maven.Coordinates.parse("org.opensearch.plugin:opensearch-security:3.8.0.0@zip")
    assert str(coordinates).endswith("@zip") and coordinates.file_name == "opensearch-security-3.8.0.0.zip"
    file = lock.LockedFile("plugins/opensearch-security", coordinates, "", 0)
    monkeypatch.setattr(lock, "read", lambda version: replace(SMALL, files=(*SMALL.files, file)))
    pretend = fetch.fetch_all

    def with_plugin(title: str, files: list[fetch.Wanted], *, progress: bool = True) -> None:
        pretend(title, files, progress=progress)
        for wanted in (each for each in files if each.name.endswith(".zip")):
            with zipfile.ZipFile(fetch.stored(wanted), "w") as packed:
                ties = "workload-management;optional=true,rule-framework,analysis-common"
                packed.writestr("plugin-descriptor.properties", f"name=x\nextended.plugins={ties}\n")
                packed.writestr("config/internal_users.yml", "admin: admin")
                packed.writestr("tools/hash.sh", "true")

    monkeypatch.setattr(fetch, "fetch_all", with_plugin)
    plain, secured = ensure_opensearch(), ensure_opensearch(plugins=["opensearch-security"])
    assert plain.path != secured.path and (plain.plugins, secured.plugins) == ((), ("opensearch-security",))
    assert "no security" in plain.distribution_note and "no security" not in secured.distribution_note
    descriptor = (secured.path / "plugins" / "opensearch-security" / "plugin-descriptor.properties").read_text()
    assert "extended.plugins=workload-management;optional=true,analysis-common\n" in descriptor
    assert not list(secured.path.rglob("internal_users.yml")) and list(secured.path.rglob("hash.sh"))
    with pytest.raises(InvalidInput, match="no plugin nonsense"):
        ensure_opensearch(plugins=["nonsense"])


def test_descriptor_and_policy_are_what_a_node_reads() -> None:
    module = SMALL.modules[0]
    assert module.descriptor("3.8.0", 21).splitlines()[0] == "name=transport-netty4"
    assert "java.version=21" in module.descriptor("3.8.0", 21)
    assert module.policy() == 'grant {\n  permission java.net.SocketPermission "*", "connect";\n};\n'
    assert SMALL.modules[1].policy() is None


def test_unknown_version_and_module_are_refused(cache: Path) -> None:
    with pytest.raises(InvalidInput, match=r"9\.9\.9 has no lock file"):
        ensure_opensearch("9.9.9")
    with pytest.raises(InvalidInput, match="no module nonsense"):
        ensure_opensearch(without={"nonsense"})


def test_assembled_home_is_complete_and_readable_by_others(small: list[int]) -> None:
    home = ensure_opensearch(progress=False)
    assert home.source == opensearch.ASSEMBLED
    assert home.classpath == str(home.path / "lib" / "opensearch-3.8.0.jar")
    assert home.java_agent == home.path / "agent" / "opensearch-agent-3.8.0.jar"
    assert home.modules == ("analysis-common", "transport-netty4")
    assert (home.path / "modules/transport-netty4/plugin-security.policy").is_file()
    assert (home.path / "config/log4j2.properties").is_file()
    assert (home.path / "plugins").is_dir() and (home.path / "bin").is_dir()
    for root, folders, names in os.walk(home.path):
        assert all(os.stat(Path(root, name)).st_mode & 0o777 == 0o755 for name in folders)
        assert all(os.stat(Path(root, name)).st_mode & 0o777 == 0o644 for name in names)


def test_jars_are_the_published_ones_without_compression(small: list[int]) -> None:
    jar = ensure_opensearch().path / "lib" / "opensearch-3.8.0.jar"
    with zipfile.ZipFile(jar) as opened:
        (entry,) = opened.infolist()
        assert entry.compress_type == zipfile.ZIP_STORED
        assert opened.read(entry) == b"opensearch-3.8.0.jar" * 100


def test_second_use_is_offline(small: list[int]) -> None:
    assert ensure_opensearch() == ensure_opensearch()
    assert small == [4]
    assert opensearch.cached_opensearch() is not None


def test_left_out_modules_make_another_home(small: list[int]) -> None:
    whole, part = ensure_opensearch(), ensure_opensearch(without={"analysis-common"})
    assert whole.path != part.path
    assert part.modules == ("transport-netty4",)
    assert "without analysis-common" in part.distribution_note


@pytest.mark.parametrize("damage", ["truncated", "deleted", "changed"])
def test_a_damaged_home_is_assembled_anew(small: list[int], damage: str) -> None:
    home = ensure_opensearch()
    jar = home.path / "lib" / "opensearch-3.8.0.jar"
    content = jar.read_bytes()
    jar.unlink()
    if damage == "truncated":
        jar.write_text("")
    elif damage == "changed":
        jar.write_bytes(content[::-1])
    again = ensure_opensearch()
    assert jar.read_bytes() == content and again == home
    assert len(small) == 2


def test_touching_a_file_does_no_harm(small: list[int]) -> None:
    home = ensure_opensearch()
    for module in ("transport-netty4", "analysis-common"):
        os.utime(home.path / "modules" / module / "plugin-descriptor.properties", (1, 1))
    config = home.path / "config" / "log4j2.properties"
    os.utime(config, (1, 1))
    ensure_opensearch()
    assert len(small) == 1


def test_a_full_disk_leaves_nothing_half_assembled(small: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(opensearch, "_write", full)
    with pytest.raises(ProvisionError, match="no space left") as caught:
        ensure_opensearch()
    assert caught.value.remedy
    assert {path.name for path in opensearch.homes().iterdir()} == {".3.8.0.lock", ".assembling.lock"}


def test_what_a_killed_assembly_left_is_swept(small: list[int]) -> None:
    stale = fetch.open_folder(opensearch.homes() / ".building-dead")
    (stale / "half.jar").write_text("half")
    ensure_opensearch()
    assert not stale.exists()


def test_two_at_once_assemble_once(small: list[int]) -> None:
    homes: list[opensearch.OpenSearchHome] = []
    threads = [threading.Thread(target=lambda: homes.append(ensure_opensearch())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(homes) == 4 and len(small) == 1


def test_two_versions_at_once_take_nothing_from_each_other(small: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "read", lambda version: replace(SMALL, version=version, digest=version))
    place, begun, other = opensearch._place, threading.Event(), threading.Event()

    def slow(source: Path, target: Path) -> None:
        place(source, target)
        if threading.current_thread().name == "first" and not begun.is_set():
            begun.set()
            other.wait(0.5)  # the other one is under way, or waits for us

    monkeypatch.setattr(opensearch, "_place", slow)
    homes: list[opensearch.OpenSearchHome] = []
    first = threading.Thread(target=lambda: homes.append(ensure_opensearch("3.8.0")), name="first")
    first.start()
    assert begun.wait(10)
    homes.append(ensure_opensearch("3.9.0"))
    other.set()
    first.join()
    assert [len(list(home.path.rglob("*.jar"))) for home in homes] == [len(SMALL.files)] * 2


def test_a_home_that_lost_a_file_while_it_was_made_is_none(small: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    place = opensearch._place

    def loses(source: Path, target: Path) -> None:
        place(source, target)
        if target.parent.name == "lib":
            target.unlink()

    monkeypatch.setattr(opensearch, "_place", loses)
    with pytest.raises(ProvisionError, match=r"lib/opensearch-3\.8\.0\.jar has gone from"):
        ensure_opensearch()
    assert opensearch.cached_opensearch() is None and not list(opensearch.homes().glob("[!.]*"))


def _home(folder: Path, version: str = "3.8.0") -> Path:
    for name in (
        f"lib/opensearch-{version}.jar",
        "lib/opensearch-core-3.8.0.jar",
        f"agent/opensearch-agent-{version}.jar",
        "modules/transport-netty4/plugin-descriptor.properties",
        "config/log4j2.properties",
    ):
        path = fetch.open_folder((folder / name).parent) / Path(name).name
        path.write_text("x")
        path.chmod(0o644)
    return folder


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest's own temporary folder is closed to other users; these tests are not about that."""
    monkeypatch.setattr("chaos.provision.given.unreadable_for_others", lambda home: None)


def test_a_given_folder_is_used_as_it_is(cache: Path, tmp_path: Path, reachable: None) -> None:
    home = ensure_opensearch(given=_home(tmp_path / "mine"))
    assert home.path == tmp_path / "mine" and home.version == "3.8.0" and home.source.startswith("given by")


def test_the_variable_gives_a_home_too(
    cache: Path, tmp_path: Path, reachable: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(opensearch.VARIABLE, str(_home(tmp_path / "mine")))
    assert "OPENSEARCH_HOME" in ensure_opensearch().source


def test_a_given_tarball_is_extracted_once(cache: Path, tmp_path: Path, reachable: None) -> None:
    tarball = tmp_path / "opensearch-min-3.8.0.tar.gz"
    with tarfile.open(tarball, "w:gz") as archive:
        archive.add(_home(tmp_path / "opensearch-3.8.0"), "opensearch-3.8.0")
    first, second = ensure_opensearch(given=tarball), ensure_opensearch(given=tarball)
    assert first == second and first.path.is_relative_to(cache / "given")
    assert not list((cache / "given").glob(".building-*"))


def test_a_tarball_that_reaches_outside_is_refused(cache: Path, tmp_path: Path) -> None:
    tarball = tmp_path / "evil.tar.gz"
    (tmp_path / "evil").write_text("x")
    with tarfile.open(tarball, "w:gz") as archive:
        archive.add(tmp_path / "evil", "../../evil")
    with pytest.raises(InvalidInput, match="cannot be extracted safely"):
        ensure_opensearch(given=tarball)
    assert not (cache / "evil").exists()


def test_an_unusable_given_home_says_what_is_missing(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        ensure_opensearch(given=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=r"no lib/opensearch-<version>\.jar, no modules/transport-netty4"):
        ensure_opensearch(given=tmp_path / "empty")
    (tmp_path / "text.tar.gz").write_text("not a tarball")
    with pytest.raises(InvalidInput, match="neither a folder nor a tar archive"):
        ensure_opensearch(given=tmp_path / "text.tar.gz")


def test_a_given_home_of_another_version_is_refused(cache: Path, tmp_path: Path, reachable: None) -> None:
    with pytest.raises(InvalidInput, match=r"is OpenSearch 3\.7\.0, but 3\.8\.0 is asked for"):
        ensure_opensearch(given=_home(tmp_path / "old", "3.7.0"))


def test_a_given_home_that_others_cannot_read_is_refused(cache: Path, tmp_path: Path) -> None:
    mine = _home(tmp_path / "mine")
    mine.chmod(0o700)
    with pytest.raises(InvalidInput, match="cannot be read by the unprivileged user"):
        ensure_opensearch(given=mine)
