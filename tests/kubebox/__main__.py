"""``python tests/kubebox``: a Kubernetes cluster in a box, see :mod:`kubebox`."""

import sys
from pathlib import Path

# of this checkout, whatever is installed
sys.path[:1] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

if __name__ == "__main__":
    from kubebox.cli import main

    raise SystemExit(main(sys.argv[1:]))
