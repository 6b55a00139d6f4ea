"""The flags that a node's JVM is started with, by profile; every one that is not the official distribution's says why.

Not here: the heap (the topology's), ``-javaagent`` (:attr:`OpenSearchHome.java_agent`), paths and the class
path. ``fast`` is for many nodes on a small machine, ``faithful`` is what the official distribution does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos.base.errors import InvalidInput
from chaos.provision.java import JavaRuntime
from chaos.provision.opensearch import OpenSearchHome

PROFILES = ("fast", "faithful")

OFFICIAL = (
    # org.opensearch.tools.launchers.SystemJvmOptions and config/jvm.options of the distribution
    "-Dopensearch.networkaddress.cache.ttl=60",
    "-Dopensearch.networkaddress.cache.negative.ttl=10",
    "-Xss1m",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
    "-Djna.nosys=true",
    "-XX:-OmitStackTraceInFastThrow",
    "-Dio.netty.noUnsafe=true",
    "-Dio.netty.noKeySetOptimization=true",
    "-Dio.netty.recycler.maxCapacityPerThread=0",
    "-Dio.netty.allocator.numDirectArenas=0",
    # Without this, log4j's own hook ends logging before the node has closed, and the node's hook fails on it.
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dlog4j2.disable.jmx=true",
    "-Djava.locale.providers=SPI,CLDR",
)

FAITHFUL = (
    "-XX:+AlwaysPreTouch",
    "-XX:+UseG1GC",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
)

FAST = (
    "-XX:+UseSerialGC",
    # C2 at start-up more than doubles the CPU of a start (3.0 -> 6.2 s) and shortens nothing in a short run.
    "-XX:TieredStopAtLevel=1",
    # With C1 alone the code cache is 48 MB, and filling it forces a full collection ("CodeCache GC Threshold") as soon
    # as code has grown by 15 % of it: 75 ms while starting, and with 128 MB still 113 ms some eight minutes into a
    # node's life, which made reads late in runs without a fault. Reserved address space costs nothing, and with the
    # other flag it takes half of it (64 MB; 20 MB were in use then).
    "-XX:ReservedCodeCacheSize=128m",
    "-XX:SweeperThreshold=100",
    "-XX:-UsePerfData",
)

ARCHIVE_WITH_AGENT = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+AllowArchivingWithJavaAgent")


def profile_flags(home: OpenSearchHome, java: JavaRuntime, profile: str) -> list[str]:
    """The flags without an archive. Raises :class:`InvalidInput` for an unknown profile."""
    if profile not in PROFILES:
        raise InvalidInput(f"unknown profile {profile!r}, expected {' or '.join(PROFILES)}")
    flags = [*OFFICIAL, *(FAST if profile == "fast" else FAITHFUL)]
    if home.java_agent is None and java.version >= 18:  # 2.x: its sandbox is the security manager
        flags.append("-Djava.security.manager=allow")
    if java.version >= 24:  # JNA loads its library; without it the JVM prints a warning into each node's log
        flags.append("--enable-native-access=ALL-UNNAMED")
    return flags


def archive_flags(archive: Path | None) -> list[str]:
    """Use a class data archive; a JVM that does not accept it starts without (``-Xshare:auto``)."""
    return [] if archive is None else [*ARCHIVE_WITH_AGENT, "-Xshare:auto", f"-XX:SharedArchiveFile={archive}"]


def node_java_flags(
    home: OpenSearchHome, java: JavaRuntime, archive: Path | None = None, profile: str = "fast"
) -> list[str]:
    """All JVM flags of a node but heap, agent, paths and class path."""
    return [*profile_flags(home, java, profile), *archive_flags(archive)]


def differences(java: JavaRuntime, profile: str) -> Sequence[str]:
    """How a node of this profile differs from one in production, for plans and reports."""
    found = ["no incubating vector module: Lucene without SIMD"]
    if profile == "fast":
        found += ["C1 compiler only, serial garbage collector (profile fast)"]
    if java.limits:
        found += [f"Java with {java.limits}"]
    return found
