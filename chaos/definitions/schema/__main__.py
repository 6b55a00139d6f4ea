"""``python -m chaos.definitions.schema`` writes the committed JSON Schemas anew."""

from chaos.definitions.schema import write

for path in write():
    print(path)
