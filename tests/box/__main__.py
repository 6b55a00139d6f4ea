"""``python tests/box``: a staging cluster in a box, see :mod:`box`."""

import sys
from pathlib import Path

# of this checkout, whatever is installed
sys.path[:1] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

if __name__ == "__main__":
    from box.cli import main

    raise SystemExit(main(sys.argv[1:]))
