from __future__ import annotations

import errno
import json
import ssl

import pytest
from opensearchpy import exceptions
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProtocolError, ReadTimeoutError, SSLError

from chaos.history.failures import Failure
from chaos.history.format import Outcome
from chaos.load.outcomes import failure_of, of_answer, of_error, of_status
from chaos.opensearch.rest import Garbled


def search(*, timed_out=False, total=3, successful=3, failed=0, hits=10):
    shards = {"total": total, "successful": successful, "skipped": 0, "failed": failed}
    return json.dumps({"timed_out": timed_out, "_shards": shards, "hits": {"total": {"value": hits}}})


def write(successful=3, failed=0):
    return json.dumps({"result": "created", "_shards": {"total": 3, "successful": successful, "failed": failed}})


BULK_OK = {"errors": False, "items": [{"create": {"status": 201, "_shards": {"total": 2, "failed": 0}}}]}
BULK_COPY_FAILED = {"errors": False, "items": [{"create": {"status": 201, "_shards": {"failed": 1}}}]}


@pytest.mark.parametrize(
    ("kind", "status", "text", "outcome"),
    [
        ("search", 200, search(), Outcome.OK),
        ("search", 200, search(failed=1, successful=2), Outcome.PARTIAL),
        ("search", 200, search(successful=2), Outcome.PARTIAL),
        ("search", 200, search(timed_out=True), Outcome.PARTIAL),
        ("search", 200, "<html>", Outcome.GARBLED),
        ("search", 200, "", Outcome.GARBLED),
        ("search", 200, "{}", Outcome.GARBLED),
        ("search", 200, "[]", Outcome.GARBLED),
        ("search", 200, "null", Outcome.GARBLED),
        ("search", 200, "[" * 100_000, Outcome.GARBLED),
        ("search", 200, search() + "}", Outcome.GARBLED),
        ("search", 200, search(timed_out=None), Outcome.GARBLED),
        ("search", 200, search(timed_out=0), Outcome.GARBLED),
        ("search", 200, search(failed=None), Outcome.GARBLED),
        ("search", 200, search(failed=False), Outcome.GARBLED),
        ("search", 200, search(total="3", successful="3"), Outcome.GARBLED),
        ("search", 200, search(hits=True), Outcome.GARBLED),
        ("search", 200, search(hits="many"), Outcome.GARBLED),
        ("index", 201, "", Outcome.GARBLED),
        ("index", 201, "{}", Outcome.GARBLED),
        ("index", 201, search(), Outcome.GARBLED),
        ("index", 201, write(failed=None), Outcome.GARBLED),
        ("index", 201, write().replace("created", "deleted"), Outcome.GARBLED),
        ("index", 201, write().replace('"created"', '["created"]'), Outcome.GARBLED),
        ("index", 200, write().replace("created", "updated"), Outcome.OK),
        ("index", 503, "<html>", Outcome.SERVER_ERROR),  # a gateway's page: the status says all
        ("get", 200, "{}", Outcome.GARBLED),
        ("get", 200, '{"found":null}', Outcome.GARBLED),
        ("get", 200, '{"found":"true"}', Outcome.GARBLED),
        ("get", 200, '{"found":false}', Outcome.PARTIAL),
        ("bulk", 200, '{"errors":0,"items":[]}', Outcome.GARBLED),
        ("bulk", 200, '{"errors":false,"items":[[]]}', Outcome.GARBLED),
        ("bulk", 200, '{"errors":false,"items":[{"index":[]}]}', Outcome.GARBLED),
        ("index", 201, write(), Outcome.OK),
        ("index", 201, write(successful=1), Outcome.OK),  # replicas without a node are no failure
        ("index", 201, write(successful=2, failed=1), Outcome.PARTIAL),
        ("index", 200, write(), Outcome.OK),
        ("get", 200, '{"found":true}', Outcome.OK),
        ("bulk", 200, json.dumps(BULK_OK), Outcome.OK),
        ("bulk", 200, json.dumps(BULK_COPY_FAILED), Outcome.PARTIAL),
        ("bulk", 200, json.dumps({"errors": True, "items": []}), Outcome.PARTIAL),
        ("search", 503, search(), Outcome.SERVER_ERROR),
    ],
)
def test_answers(kind, status, text, outcome):
    assert of_answer(kind, status, text) is outcome


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (429, Outcome.REJECTED),
        (500, Outcome.SERVER_ERROR),
        (503, Outcome.SERVER_ERROR),
        (404, Outcome.CLIENT_ERROR),
        (408, Outcome.SERVER_ERROR),  # a health request that waited in vain
    ],
)
def test_statuses(status, outcome):
    assert of_status(status) is outcome
    assert of_error(exceptions.TransportError(status, "x", {})) == (outcome, status)


def new_connection(number):
    error = NewConnectionError(None, "Failed to establish a new connection")
    error.__cause__ = OSError(number, "x")
    return error


def wrapped(error):
    """As opensearch-py raises what urllib3 raised."""
    return exceptions.ConnectionError("N/A", str(error), error)


@pytest.mark.parametrize(
    ("error", "outcome", "failure"),
    [
        (new_connection(errno.ECONNREFUSED), Outcome.REFUSED, Failure.CONNECTION_REFUSED),
        (new_connection(errno.EHOSTUNREACH), Outcome.REFUSED, Failure.UNREACHABLE),
        (new_connection(errno.ETIMEDOUT), Outcome.TIMEOUT, Failure.CONNECT_TIMEOUT),
        (
            new_connection(errno.EMFILE),
            Outcome.DROPPED,
            Failure.DRIVER,
        ),  # the driver's own limit, not the cluster's fault
        (new_connection(errno.EADDRNOTAVAIL), Outcome.DROPPED, Failure.DRIVER),
        (ConnectTimeoutError(None, "x"), Outcome.TIMEOUT, Failure.CONNECT_TIMEOUT),
        (ReadTimeoutError(None, "/", "x"), Outcome.TIMEOUT, Failure.TIMEOUT),
        (
            ProtocolError("Connection aborted.", ConnectionResetError(errno.ECONNRESET, "x")),
            Outcome.RESET,
            Failure.CONNECTION_RESET,
        ),
        (ProtocolError("Connection aborted.", OSError(errno.ETIMEDOUT, "x")), Outcome.TIMEOUT, Failure.TIMEOUT),
        (ProtocolError("Connection broken"), Outcome.RESET, Failure.CONNECTION_RESET),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), Outcome.REFUSED, Failure.CONNECTION_REFUSED),
        (BrokenPipeError(errno.EPIPE, "x"), Outcome.RESET, Failure.CONNECTION_RESET),
        (SSLError(ssl.SSLCertVerificationError(1, "certificate verify failed")), Outcome.REFUSED, Failure.NOT_TRUSTED),
        (SSLError(ssl.SSLEOFError(8, "EOF occurred")), Outcome.RESET, Failure.CONNECTION_RESET),
    ],
)
def test_connection_errors_bare_and_as_opensearch_py_wraps_them(error, outcome, failure):
    assert of_error(error) == (outcome, 0)
    assert of_error(wrapped(error)) == (outcome, 0)
    assert failure_of(error) is failure
    assert failure_of(wrapped(error)) is failure


@pytest.mark.parametrize("status", [0, 200, 201, 404, 503])
def test_what_is_no_answer_is_garbled_bare_and_as_opensearch_py_wraps_it(status):
    error = Garbled("cut short", status)
    assert of_error(error) == of_error(wrapped(error)) == (Outcome.GARBLED, status)


@pytest.mark.parametrize(
    ("kind", "text", "beside"),
    [
        ("search", search(hits=20), {("_shards", "skipped")}),
        ("index", write(), {("_shards", "total"), ("_shards", "successful")}),
        ("get", '{"found":true,"_id":"p-1"}', {("_id",)}),
    ],
)
def test_an_answer_is_good_only_with_all_that_its_goodness_hangs_on(kind, text, beside):
    """Every place of a good answer taken out, or replaced by something of every other kind."""
    for place in places(json.loads(text)):
        for other in (None, 0.5, "0", [], {}, [[]], ABSENT):
            answer = json.loads(text)
            put(answer, place, other)
            found = of_answer(kind, 200, json.dumps(answer))
            assert found is (Outcome.OK if place in beside else Outcome.GARBLED), (place, other)


ABSENT = object()


def places(value, path=()):
    """The paths of everything in a JSON value but the value itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def put(value, path, other):
    for key in path[:-1]:
        value = value[key]
    if other is ABSENT:
        del value[path[-1]]
    else:
        value[path[-1]] = other


def test_other_errors():
    assert of_error(exceptions.ConnectionTimeout("TIMEOUT", "x", None)) == (Outcome.TIMEOUT, 0)
    assert of_error(exceptions.ConflictError(409, "x", {})) == (Outcome.UNKNOWN, 409)
    assert of_error(ZeroDivisionError()) == (Outcome.UNKNOWN, 0)


def error(status, kind):
    return exceptions.TransportError(status, kind, {"error": {"type": kind}, "status": status})


@pytest.mark.parametrize(
    ("status", "kind", "outcome"),
    [
        (403, "cluster_block_exception", Outcome.SERVER_ERROR),  # the cluster takes no such request now
        (403, "security_exception", Outcome.CLIENT_ERROR),  # this user may not: the run cannot say anything
        (429, "cluster_block_exception", Outcome.REJECTED),  # the disk flood stage's block
        (503, "cluster_block_exception", Outcome.SERVER_ERROR),
    ],
)
def test_a_block_is_the_clusters_word_about_itself_and_no_fault_of_the_request(status, kind, outcome):
    assert of_error(error(status, kind)) == (outcome, status)
