"""Files that mean harm: each is refused soon, with one error."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import random
import resource
import time
from pathlib import Path

import pytest

from chaos.base.errors import Exit, InvalidInput
from chaos.load.importing import reading, sources

HELPERS = '{% import "benchmark.helpers" as benchmark with context %}'
SOON = 1.2
"""Processor seconds, with the start of Python: by the clock it is as long on a machine that has nothing else to do."""


def refused(path: Path) -> str:
    """The error, in one line."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time()
    with pytest.raises(InvalidInput) as caught:
        sources.bring([path], parameters={}, procedure=None, also=[])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    children = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert time.process_time() - began + children < SOON
    assert caught.value.exit_code is Exit.USAGE
    text = str(caught.value)
    assert "\n" not in text and len(text) < 500
    return text


def workload(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "theirs"
    path.mkdir()
    (path / "workload.json").write_text(text)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.json").write_text('"the secret"')
    return path


@pytest.mark.parametrize(
    "text",
    [
        HELPERS + '{"a": [{{ benchmark.collect(parts="../outside/*.json") }}]}',
        HELPERS + '{"a": [{{ benchmark.collect(parts="../outside/secret.json") }}]}',
        HELPERS + '{"a": [{{ benchmark.collect(parts="/etc/passwd") }}]}',
        HELPERS + '{% set where = "../outside/*.json" %}{"a": [{{ benchmark.collect(parts=where) }}]}',
        '{"a": "{{ glob("../outside/*") }}"}',
        '{"a": "{{ glob("/*/*") }}"}',
        '{"a": {% include "../outside/secret.json" %}}',
        '{"a": {% include "/etc/passwd" %}}',
        '{% from "../outside/secret.json" import a %}{}',
        '{"indices": [{"name": "a", "body": "../outside/secret.json"}]}',
        '{"indices": [{"name": "a", "body": "/etc/passwd"}]}',
        '{"templates": [{"name": "a", "template": "/etc/passwd"}]}',
    ],
)
def test_no_file_outside_is_read(tmp_path: Path, text: str) -> None:
    said = refused(workload(tmp_path, text))
    assert "which is outside its folder" in said and "--also-read" in said


@pytest.mark.parametrize("link", ["one", "folder", "device"])
def test_links_lead_nowhere_outside(tmp_path: Path, link: str) -> None:
    path = workload(tmp_path, HELPERS + '{"a": [{{ benchmark.collect(parts="in/*.json") }}]}')
    if link == "folder":
        (path / "in").symlink_to(tmp_path / "outside")
    else:
        (path / "in").mkdir()
        (path / "in/a.json").symlink_to(tmp_path / "outside/secret.json" if link == "one" else "/dev/zero")
    said = refused(path)
    assert "which is outside its folder (a link to" in said and "the secret" not in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{}", "seconds_of_processor"),
        (
            "{% set n = namespace(x=10) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}{}",
            "seconds_of_processor",
        ),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxxxxxx{% endfor %}{% endfor %}",
            "renders to more than 4 MiB",
        ),
        ("{% set x = 'a'.ljust(9999999999) %}{}", "more than 512 MiB of memory"),
        ("{% set x = 'a' * 9999999999 %}{}", "a text or list 9999999999 times"),
        ("{{ 10 ** 99999999 }}", "to the power of 99999999"),
        ("{{ ''.__class__.__mro__ }}", "asks for what no template needs"),
        ("{{ '{0.__class__}'.format(benchmark) }}{{ joiner.__init__.__globals__ }}", "asks for what no template needs"),
        ('{% include "workload.json" %}', "too many levels"),
        (HELPERS + '{{ benchmark.collect(parts="workload.json") }}', "collects itself"),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "too many levels"),
        ("{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}", "too many levels"),
        ("[" * 50_000, "JSON of more than 100 levels"),
        ('{"a":' * 200 + "1" + "}" * 200, "JSON of more than 100 levels"),
        ('{"a": "' + "x" * 10_000_000 + '"}', "has more than 4 MiB"),
        ('{"a": }', "is not JSON"),
        ('{"a": NaN}', "is not JSON"),
        ("{{ nothing.at.all }}", "'nothing' is undefined; give it with --workload-params"),
        ("{% if %}", "line 1"),
        ("[1]", "renders to no JSON object"),
    ],
)
def test_templates_have_bounds(tmp_path: Path, text: str, says: str) -> None:
    says = says.replace("seconds_of_processor", "rendering it takes more than 0.6 s of processor time, and was ended")
    assert says in refused(workload(tmp_path, text))


def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = workload(tmp_path, '{"indices": [{"name": "a", "body": "pipe"}]}')
    os.mkfifo(path / "pipe")
    assert "pipe is no file" in refused(path)
    os.mkfifo(tmp_path / "documents.ndjson")
    assert "it is no file" in refused(tmp_path / "documents.ndjson")


def _slow(source: str) -> bytes:
    line = (
        f"[2026-11-27T10:00:00,123][WARN ][i.s.s.query] [n] [o][0] took[1ms], total_shards[1], source[{source}], id[]\n"
    )
    return line.encode()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("line.ndjson", b'{"a": "' + b"x" * 10_000_000 + b'"}\n', ":1: the line has more than 1 MiB"),
        ("bomb.ndjson.gz", gzip.compress(b"0" * 2**26), ":1: the line has more than 1 MiB"),
        ("bomb.ndjson.bz2", bz2.compress(b"0" * 2**24), ":1: the line has more than 1 MiB"),
        ("nothing.ndjson.gz", gzip.compress(b"") * 500_000, "of it hold hardly any content"),
        ("cut.ndjson.gz", gzip.compress(b'{"a": 1}\n' * 1000)[:40], "cannot be read"),
        ("plain.ndjson.gz", b'{"a": 1}\n', "cannot be read"),
        ("bomb.ndjson.zst", reading.zstd().compress(b"0" * 2**26), ":1: the line has more than 1 MiB"),
        (
            "nothing.ndjson.zst",
            (b"\x50\x2a\x4d\x18" + (999).to_bytes(4, "little") + bytes(999)) * 5_000,
            "of it hold hardly any content",
        ),
        ("cut.ndjson.zst", reading.zstd().compress(random.Random(1).randbytes(1000))[:40], "cannot be read"),
        ("plain.ndjson.zst", b'{"a": 1}\n', "cannot be read"),
        ("deep.ndjson", b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"\n", "more than 20 levels"),
        ("less-deep.ndjson", b'{"a": 1}\n' + b'{"a":' * 30 + b"1" + b"}" * 30 + b"\n", ":2: more than 20 levels"),
        ("list.ndjson", b"[" * 100_000, "it begins with a list, and one document a line was expected"),
        ("nan.ndjson", b'{"a": 1}\n{"a": NaN}\n', ":2: not JSON: NaN is no number"),
        ("long.ndjson", b'{"a": 1}\n{"a": ' + b"9" * 5000 + b"}\n", ":2: not JSON"),
        ("bytes.ndjson", b'{"a": 1}\n\xff\xfe\n', ":2: it is not UTF-8 text"),
        ("half.ndjson", b'{"a": 1}\n{"a": "\\ud800"}\n', ":2: half of a character"),
        ("empty.ndjson", b"", "the file is empty"),
        (
            "deep.log",
            _slow('{"query":{"bool":{"must":' * 9000 + "{}" + "}}}" * 9000),
            ":1: a search of too many levels",
        ),
        ("less-deep.log", _slow('{"query":{"bool":{"must":' * 30 + "{}" + "}}}" * 30), ":1: more than 50 levels"),
        ("cut.log", _slow('{"query":{"bool"'), "no search stands in this slow log"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.count(" ") == 0 else "",
)
def test_files_of_data_have_bounds(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert says in refused(path)


def test_documents_of_very_many_fields_are_refused(tmp_path: Path) -> None:
    from chaos.load.importing import making

    path = tmp_path / "many.ndjson"
    path.write_text(json.dumps({f"k{n}": 1 for n in range(2000)}) + '\n{"a": 1}\n')
    brought = sources.bring([path], parameters={}, procedure=None, also=[])
    with pytest.raises(InvalidInput, match="more than 1000 fields, and an index takes no more"):
        making.make(brought)
