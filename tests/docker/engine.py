"""Run a command with a Docker engine: the one that is there, or one that is installed and started for it (Debian).

``python tests/docker/engine.py COMMAND...``: its exit code; 69 when no engine can be had.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START_SECONDS = 60
UNAVAILABLE = 69
"""EX_UNAVAILABLE, sysexits.h."""


def answers() -> bool:
    import docker

    try:
        return bool(docker.from_env(timeout=5).ping())
    except Exception:  # whatever it is: there is none
        return False


def install() -> str | None:
    """Debian's engine; says why not."""
    if shutil.which("dockerd"):
        return None
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return "no Docker engine answers, and only root on Debian can install one here: install and start one"
    print("installing Debian's docker.io", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "docker.io", "iptables"]):
        done = subprocess.run(["apt-get", *command], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"apt-get {command[0]} failed: {done.stderr.strip()[-300:]}"
    return None


def main(command: list[str]) -> int:
    if answers():
        return subprocess.call(command)
    if why := install():
        print(why, file=sys.stderr)
        return UNAVAILABLE
    log = Path(tempfile.mkdtemp(prefix="dockerd-")) / "log"
    with open(log, "wb") as output:
        engine = subprocess.Popen(["dockerd"], stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers():
            if engine.poll() is not None or time.monotonic() > deadline:
                print(f"the Docker engine does not start: {log.read_text()[-600:]}", file=sys.stderr)
                return UNAVAILABLE
            time.sleep(0.2)
        return subprocess.call(command)
    finally:
        engine.terminate()
        engine.wait(60)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
