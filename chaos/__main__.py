"""``python -m chaos`` is ``opensearch-chaos``."""

from chaos.cli import main

main()
