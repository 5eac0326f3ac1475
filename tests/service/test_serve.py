"""`aiayn serve` with many clients at once, with broken and hostile ones, and when it stops."""

import contextlib
import math
import os
import re
import resource
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from commands import after, wait_until
from models import copy_changed
from services import SEARCH, serving

from aiayn_plugin.inference.translator import Translator
from aiayn_plugin.service.server import (
    MAX_CONNECTIONS,
    REQUEST_TIMEOUT,
    allowed_hosts,
    base_url,
    listen,
)

LINES = ["Sunday", "the Arctic", "Swiss German (Switzerland)", "3 minutes ago", "German", ""]


@pytest.fixture(scope="module")
def expected(model_dir):
    """The five best translations of LINES, each translated alone."""
    translator = Translator.load(model_dir, nbest=5, **SEARCH)
    return {line: translator.translate_nbest([line])[0] for line in LINES}


def test_the_service_answers_like_the_translator(service, expected):
    status, answer = service.translate("Sunday")
    best = expected["Sunday"][0]
    score = pytest.approx(best.score, abs=1e-4)
    assert (status, answer) == (200, {"translations": [{"text": best.text, "score": score}]})
    status, answer = service.translate(LINES, nbest=5)
    assert status == 200
    for line, translation in zip(LINES, answer["translations"], strict=True):
        assert translation["text"] == expected[line][0].text
        assert [each["text"] for each in translation["nbest"]] == [
            each.text for each in expected[line]
        ]
    status, health = service.send("GET", "/health")
    assert status == 200 and health.pop("model") == "model_dir"
    assert health == {"status": "ok", "source": "en", "target": "de", "queued": 0}


@pytest.fixture(scope="module")
def int8_service(model_dir, tmp_path_factory):
    with serving(model_dir, tmp_path_factory.mktemp("int8"), "--precision", "int8") as running:
        yield running


@pytest.mark.parametrize(
    "name, seconds",
    [
        ("service", 3.0),
        pytest.param("service", 300.0, marks=pytest.mark.long),
        pytest.param("int8_service", 300.0, marks=pytest.mark.long),
    ],
)
def test_each_of_fifty_clients_gets_its_own_translations(request, expected, name, seconds):
    """No answer is lost or swapped, and memory stops growing after a tenth of the time."""
    service = request.getfixturevalue(name)
    finished, warmed_up = after(seconds), after(seconds / 10)
    counts, memory = [], []

    def client(number: int) -> None:
        count = 0
        while not finished():
            lines = [LINES[(number + count + i) % len(LINES)] for i in range(1 + number % 4)]
            status, answer = service.translate(lines, nbest=1 + number % 2)
            assert status == 200, answer
            texts = [translation["text"] for translation in answer["translations"]]
            assert len(texts) == len(lines)
            if name == "service":  # int8 translations depend slightly on their batch
                assert texts == [expected[line][0].text for line in lines]
            count += 1
            if warmed_up():
                memory.append(service.memory)
        counts.append(count)

    with ThreadPoolExecutor(50) as clients:
        for result in [clients.submit(client, number) for number in range(50)]:
            result.result()
    assert len(counts) == 50 and min(counts) > 0
    print(f"{sum(counts):,} requests in {seconds:.0f} s, {max(memory):.0f} MB")
    if seconds > 100:  # memory grows for a few hundred requests
        assert max(memory) < 1.1 * memory[0] + 20


@pytest.mark.parametrize(
    "method, path, body, headers, status, message",
    [
        ("POST", "/translate", b"{", {}, 400, "not valid JSON"),
        ("POST", "/translate", b"{}", {"Content_Type": "text/plain"}, 415, "must be JSON"),
        ("POST", "/translate", b"[" * 999_999, {}, 400, "not valid JSON"),
        ("POST", "/translate", b" " * 1_000_001, {}, 413, "exceeds 1,000,000 bytes"),
        ("POST", "/translate", {"text": "x" * 201}, {}, 413, "201 characters; the limit is 200"),
        ("POST", "/translate", {"text": ["x"] * 301}, {}, 413, "too many sentences: 301"),
        ("POST", "/translate", {"text": "x"}, {"Host": "evil.example"}, 421, "unknown host"),
        ("POST", "/translate", {"text": "x"}, {"Host": "localhost.evil.example:80"}, 421, "host"),
        ("GET", "/translate", None, {}, 405, "Method Not Allowed"),
        ("GET", "/../../etc/passwd", None, {}, 404, "Not Found"),
        ("GET", "/attention?text=" + 201 * "x", None, {}, 413, "201 characters"),
        ("GET", "/attention?text=", None, {}, 400, "line 1 is empty"),
        ("GET", "/attention?text=x", None, {"Sec_Fetch_Site": "cross-site"}, 403, "cross-site"),
    ],
)
def test_an_invalid_request_is_rejected_with_a_reason(
    service, method, path, body, headers, status, message
):
    actual, answer = service.send(method, path, body, **headers)
    assert actual == status and message in answer["error"]
    assert service.translate("Sunday")[0] == 200


def test_responses_forbid_guessing_framing_referrers_and_caching(service):
    with urlopen(f"{service.url}/health") as response:
        headers = response.headers
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer" and headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_the_service_is_reached_by_each_of_its_names(service):
    for name in ("localhost", "127.0.0.1", "LOCALHOST"):
        for host in (name, f"{name}:{service.address[1]}"):
            assert service.send("GET", "/attention?text=", Host=host)[0] == 400, "not 421"
    assert service.send("GET", "/health", Host="10.0.0.7")[0] == 200, "a probe may not know it"


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 1000,
        b"GET /\r\n\r\n",
        b"POST /translate HTTP/1.1\r\n" * 2,
        os.urandom(5000),
        b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000,
    ],
    ids=["zeros", "version", "twice", "noise", "header"],
)
def test_the_service_survives_malformed_http(service, data):
    response = b""
    with (
        socket.create_connection(service.address, 10) as client,
        contextlib.suppress(OSError),  # it may hang up
    ):
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        response = client.recv(100)
    assert not response or b" 400 " in response
    assert service.translate("Sunday")[0] == 200


#: A request without its body, and the end of its headers.
POST = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SIZE = b"Content-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def stalled(service):
    """The connection of a client that sends only the beginning of a request."""
    with socket.create_connection(service.address, 30) as client:
        client.sendall(POST + SIZE % 99 + b"{")
        yield client


def test_the_service_survives_clients_that_stall_or_disconnect(service, stalled):
    for _ in range(20):
        with socket.create_connection(service.address, 10) as leaving:
            leaving.sendall(POST + SIZE % 19 + b'{"text": "Sunday !"}')
    assert service.translate("Sunday")[0] == 200
    wait_until(lambda: not service.queued())


@pytest.mark.long
def test_a_client_that_stops_reading_loses_its_connection(service):
    """A client that reads late still receives every response."""
    count, responses = 3000, []
    for pause in (1, 2 * REQUEST_TIMEOUT + 5):
        with socket.create_connection(service.address, 60) as client:
            client.sendall(count * b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(pause)
            received = b""
            with contextlib.suppress(ConnectionResetError):
                while received.count(b"</html>") < count and (part := client.recv(1_000_000)):
                    received += part
            responses.append(received.count(b"</html>"))
    assert responses[0] == count > responses[1]


@pytest.mark.parametrize("status, end", [(413, b""), (413, b"Connection: close\r\n"), (415, b"")])
def test_a_client_that_reads_late_receives_its_error(service, status, end):
    request = POST + end + SIZE % 5_000_000 + b" " * 5_000_000
    if status == 415:
        request = request.replace(b"/json", b"/xml")
    for _ in range(5):
        with socket.create_connection(service.address, 30) as client:
            client.sendall(request)
            assert f" {status} ".encode() in client.recv(1000)


def test_a_request_with_two_lengths_ends_its_connection(service):
    """One of two servers would take the second request for a part of the first."""
    smuggled = b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(service.address, 30) as client:
        client.sendall(POST + b"Transfer-Encoding: chunked\r\n" + SIZE % 5 + smuggled)
        response = b"".join(iter(lambda: client.recv(1000), b""))
    assert response.startswith(b"HTTP/1.1 400 ") and response.count(b"HTTP/1.1") == 1


def test_requests_that_exceed_the_queue_are_rejected(service):
    with ThreadPoolExecutor(10) as clients:
        answers = list(clients.map(lambda _: service.translate(300 * ["Swiss German"]), range(10)))
    assert {status for status, _ in answers} == {200, 429}
    for status, answer in answers:
        if status == 429:
            assert "of at most 300 sentences are waiting; try again" in answer["error"]
        else:
            assert len(answer["translations"]) == 300


def test_the_attention_of_a_sentence_is_a_page(service):
    text = quote("Swiss <b>German</b>")
    status, page = service.send("GET", f"/attention?text={text}", Sec_Fetch_Site="same-origin")
    assert status == 200 and page.startswith("<!DOCTYPE html>")
    assert "Attention" in page and "<b>German" not in page


def test_a_stalled_client_gets_status_408(stalled):
    """After BODY_TIMEOUT seconds, which have passed during the tests above."""
    assert b" 408 " in stalled.recv(1000)


def test_each_request_is_logged_as_one_line(service):
    assert service.translate(["Sunday", "German"])[0] == 200
    service.send("GET", "/%0aforged%1b[31m", X_Forwarded_For="\x1b[2J" + 200 * "y")
    wait_until(lambda: "forged" in service.log)
    *_, translated = (line for line in service.log.splitlines() if "sentences: 2" in line)
    *_, forged = (line for line in service.log.splitlines() if "forged" in line)
    prefix = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| INFO \| aiayn serve \| "
    assert re.fullmatch(
        prefix + r"POST /translate 200, sentences: 2, \d+\.\d{3} s, from 127.0.0.1", translated
    )
    assert re.fullmatch(prefix + r"GET /\\nforged\\x1b\[31m 404, .*, from \\x1b\[2Jy{,96}", forged)
    assert "Traceback" not in service.log


def test_stalled_clients_do_not_lock_out_others(service):
    answered = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * MAX_CONNECTIONS:
        pytest.skip("needs more open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as clients:
        clients.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for number in range(MAX_CONNECTIONS + 10):
            stalled = clients.enter_context(socket.create_connection(service.address, 30))
            stalled.sendall([answered, b"", POST + SIZE % 99 + b"{", POST][number % 4])
            if number % 4 == 0:
                assert b" 200 " in stalled.recv(1000)
                stalled.sendall(POST)
        assert service.translate("Sunday")[0] == 200
        assert stalled.recv(1) == b"", "it must be closed in time"


def test_ctranslate2_answers_with_the_same_translations(tmp_path):
    pytest.importorskip("ctranslate2")
    text = "Closed: Monday and Sunday"
    translator = Translator.load("demo", engine="ctranslate2", precision="int8", nbest=2)
    [[best, _]] = translator.translate_nbest([text])
    with serving("demo", tmp_path, "--engine", "ctranslate2", "--precision", "int8") as running:
        status, answer = running.translate(text, nbest=2)
        [found] = answer["translations"]
        assert status == 200 and len(found["nbest"]) == 2
        assert found["text"] == best.text
        assert found["score"] == pytest.approx(best.score, abs=1e-5)
        assert running.send("GET", f"/attention?text={quote(text)}")[0] == 200


def test_failures_of_the_model_are_not_blamed_on_the_client(model_dir, tmp_path):
    bias = "decoder.layers.0.feed_forward.W_1.bias"
    broken = copy_changed(model_dir, tmp_path, lambda state: state["model"][bias].fill_(math.nan))
    with serving(broken, tmp_path) as service:
        assert service.translate("Sunday")[0] == 500
        assert service.send("GET", "/attention?text=Sunday")[0] == 500
        status, answer = service.send("GET", "/attention?text=" + 300 * "1+")
        assert status == 400 and "301 subwords" in answer["error"], "rejected before the search"
        assert service.stop() == 0
        assert service.log.count("RuntimeError: a sentence has no hypothesis") == 2


def test_the_service_completes_requests_in_flight_before_it_stops(model_dir, tmp_path):
    with serving(model_dir, tmp_path) as service:
        answers = []
        client = threading.Thread(
            target=lambda: answers.append(service.translate(500 * ["Swiss German"]))
        )
        client.start()
        wait_until(service.queued)
        assert service.stop(signal.SIGINT) == 0
        client.join()
        [(status, answer)] = answers
        assert status == 200 and len(answer["translations"]) == 500
        assert service.log.endswith("| stopped\n")


@pytest.mark.parametrize(
    "options, message",
    [
        (["--port", "99999"], "--port 99999 must be from 0 to 65535"),
        (["--host", "a" * 300], "cannot listen on aaaaa"),
        (["--host", "no.such.host.example"], "cannot listen on no.such.host.example"),
        (["--port", "TAKEN"], "cannot listen on 127.0.0.1, port .*: Address already in use"),
        (["--max-queued", "0"], "--max-queued 0 must be at least 1"),
        (["--beam", "0"], "--beam 0 must be at least 1"),
    ],
)
def test_an_invalid_address_or_limit_is_reported_before_the_model_is_loaded(
    error, options, message
):
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        words = [port if word == "TAKEN" else word for word in options]
        assert re.match(message, error("serve", "absent", *words))


@pytest.mark.parametrize(
    "host, extra, allowed, rejected",
    [
        ("127.0.0.1", [], {"localhost", "127.0.0.1", "[::1]"}, {"127.0.0.2", "proxy"}),
        ("127.257", ["Proxy"], {"127.0.1.1", "127.257", "proxy"}, {"127.0.0.2"}),
        ("0", ["proxy"], {"proxy", "0.0.0.0", "localhost"}, {"10.0.0.1"}),
        (
            "0",
            ["proxy:8443", "fd00::5", "[fd00::6]:80"],
            {"proxy", "[fd00::5]", "[fd00::6]"},
            {"proxy:8443", "fd00::5"},
        ),
    ],
)
def test_allowed_hosts(host, extra, allowed, rejected):
    with listen(host, 0) as listener:
        hosts = set(allowed_hosts(host, listener, extra))
        address = listener.getsockname()[0]
        assert base_url(listener).startswith(f"http://{address}:") and address in hosts
    assert allowed <= hosts and not rejected & hosts


def test_any_host_is_allowed_on_every_interface():
    with listen("0", 0) as listener:
        assert allowed_hosts("0", listener, []) is None
