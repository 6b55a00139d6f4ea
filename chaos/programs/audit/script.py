"""The script that saves a cluster's answers with curl, made of the same list of GETs that the audit asks."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.programs.audit.questions import QUESTIONS, REPOSITORIES, SNAPSHOTS

COMMAND = "opensearch-chaos audit --print-script"

_HEAD = f"""\
#!/bin/sh
# Saves what `opensearch-chaos audit --from FOLDER` reads: {len(QUESTIONS)} GETs, and one more for each repository.
# It changes nothing. Answers name nodes, indices and settings: look at them before you send them to anybody.
#
#   sh collect.sh https://HOST:9200 FOLDER [options of curl, for example -u admin --cacert ca.pem]
#
# Made by `{COMMAND}`. Needs a POSIX shell, curl, tr and sed.
set -u
URL=${{1:?usage: sh collect.sh URL FOLDER [options of curl]}}
FOLDER=${{2:?usage: sh collect.sh URL FOLDER [options of curl]}}
shift 2
URL=${{URL%/}}
mkdir -p "$FOLDER" || exit 2

ask() {{ # NAME PATH [options of curl]: the body goes to NAME.json, the HTTP status to NAME.status
  name=$1 path=$2
  shift 2
  curl -sS -g -X GET --max-time 60 "$@" -o "$FOLDER/$name.json" -w '%{{http_code}}\\n' "$URL$path" \\
    > "$FOLDER/$name.status" || echo "$name: not answered" >&2
  [ -e "$FOLDER/$name.json" ] || : > "$FOLDER/$name.json"
}}
"""
_NAMES = r"""tr ',' '\n' < "$FOLDER/{name}.json" | sed -n 's/.*"id" *: *"\([A-Za-z0-9._-]*\)".*/\1/p'"""


def text() -> str:
    """The whole script."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    for question in QUESTIONS:
        yield f"# {question.about}"
        yield f"""ask {question.name} '{question.path}' "$@\""""
    yield ""
    yield f"# {SNAPSHOTS.about}"
    yield _NAMES.format(name=REPOSITORIES.name) + " |"
    yield "  while read -r REPOSITORY; do"
    name, path = (part.replace("REPOSITORY", "$REPOSITORY") for part in (SNAPSHOTS.name, SNAPSHOTS.path))
    yield f'    ask "{name}" "{path}" "$@" < /dev/null'
    yield "  done"
