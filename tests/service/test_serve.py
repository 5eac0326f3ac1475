"""`aiayn serve` under clients: many at once, broken ones, hostile ones, and at its end."""

import contextlib
import os
import re
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlsplit

import pytest
from commands import after
from services import serving

from aiayn_plugin.errors import InputError
from aiayn_plugin.inference.translator import Translator
from aiayn_plugin.service.server import address, listen, names

LINES = ["Sunday", "the Arctic", "Swiss German (Switzerland)", "3 minutes ago", "German", ""]
#: Seconds of the load; the long test takes more.
SHORT, LONG = 5.0, 300.0


@pytest.fixture(scope="module")
def service(model_dir, tmp_path_factory):
    with serving(
        model_dir, tmp_path_factory.mktemp("serve"), "--max-length", "200", "--max-waiting", "300"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def alone(model_dir):
    """The translations of LINES, one at a time."""
    translator = Translator.load(model_dir, nbest=2)
    return {line: translator.translate_nbest([line])[0] for line in LINES}


def test_it_answers_as_the_translator_does(service, alone):
    status, found = service.translate("Sunday")
    [best, _] = alone["Sunday"]
    assert (status, found) == (
        200,
        {"translations": [{"text": best.text, "score": pytest.approx(best.score, abs=1e-4)}]},
    )
    status, found = service.translate(LINES, nbest=2)
    assert status == 200
    for line, one in zip(LINES, found["translations"], strict=True):
        assert one["text"] == alone[line][0].text
        assert [of["text"] for of in one["nbest"]] == [of.text for of in alone[line]]
    status, health = service.send("GET", "/health")
    assert status == 200 and health == {
        "status": "ok",
        "model": health["model"],
        "source": "en",
        "target": "de",
        "waiting": 0,
    }


@pytest.fixture(scope="module")
def service_in_int8(model_dir, tmp_path_factory):
    with serving(model_dir, tmp_path_factory.mktemp("int8"), "--precision", "int8") as running:
        yield running


@pytest.mark.parametrize(
    "precision, seconds",
    [
        ("float32", SHORT),
        pytest.param("float32", LONG, marks=pytest.mark.long),
        pytest.param("int8", LONG, marks=pytest.mark.long),
    ],
)
def test_fifty_clients_get_each_their_own(request, alone, precision, seconds):
    """No answer is lost or another's, and memory stays as it is after the first tenth."""
    service = request.getfixturevalue("service_in_int8" if precision == "int8" else "service")
    end, early = after(seconds), after(seconds / 10)
    counts, memory = [], []

    def client(number: int) -> None:
        asked = 0
        while not end():
            some = [LINES[(number + asked + i) % len(LINES)] for i in range(1 + number % 4)]
            status, found = service.translate(some, nbest=1 + number % 2)
            assert status == 200, found
            texts = [one["text"] for one in found["translations"]]
            assert len(texts) == len(some)
            if precision == "float32":  # in 8 bits an answer depends a little on its batch
                assert texts == [alone[line][0].text for line in some]
            asked += 1
            if early():
                memory.append(service.memory)
        counts.append(asked)

    with ThreadPoolExecutor(50) as clients:
        for done in [clients.submit(client, number) for number in range(50)]:
            done.result()
    assert len(counts) == 50 and min(counts) > 0
    print(f"{sum(counts):,} requests in {seconds:.0f} s, {max(memory):.0f} MB")
    assert max(memory) < 1.1 * memory[0] + 20


@pytest.mark.parametrize(
    "method, path, body, headers, status, message",
    [
        ("POST", "/translate", b"{", {}, 400, "the body is no JSON"),
        (
            "POST",
            "/translate",
            b'{"text": "a"}',
            {"Content_Type": "text/plain"},
            415,
            "must be JSON",
        ),
        ("POST", "/translate", b"[" * 999_999, {}, 400, "the body is no JSON"),
        ("POST", "/translate", b" " * 1_000_001, {}, 413, "more than 1,000,000 bytes"),
        (
            "POST",
            "/translate",
            {"text": "x" * 201},
            {},
            413,
            "has 201 characters, and may have 200",
        ),
        ("POST", "/translate", {"text": ["x"] * 301}, {}, 413, "301 sentences are too many"),
        ("POST", "/translate", {"text": "x"}, {"Host": "evil.example"}, 421, "another name"),
        (
            "POST",
            "/translate",
            {"text": "x"},
            {"Host": "localhost.evil.example:80"},
            421,
            "another",
        ),
        ("GET", "/translate", None, {}, 405, "Method Not Allowed"),
        ("GET", "/../../etc/passwd", None, {}, 404, "Not Found"),
        ("GET", "/attention?text=" + 201 * "x", None, {}, 413, "201 characters"),
        ("GET", "/attention?text=", None, {}, 400, "no word"),
        ("GET", "/attention?text=x", None, {"Sec_Fetch_Site": "cross-site"}, 403, "another site's"),
    ],
)
def test_what_it_cannot_answer_it_refuses_with_a_reason(
    service, method, path, body, headers, status, message
):
    found = service.send(method, path, body, **headers)
    assert found[0] == status and message in found[1]["error"]
    assert service.translate("Sunday")[0] == 200


def test_its_own_names_are_known(service):
    port = urlsplit(service.address).port
    for name in ("localhost", "127.0.0.1", "LOCALHOST"):
        for host in (name, f"{name}:{port}"):
            assert service.send("GET", "/health", Host=host)[0] == 200


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
def test_what_is_no_request_harms_nothing(service, data):
    answer = b""
    with (
        socket.create_connection(("127.0.0.1", urlsplit(service.address).port), 10) as client,
        contextlib.suppress(OSError),  # it hangs up
    ):
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        answer = client.recv(100)
    assert not answer or b" 400 " in answer
    assert service.translate("Sunday")[0] == 200


def test_a_client_that_stops_sending_or_leaves_harms_nothing(service):
    address = ("127.0.0.1", urlsplit(service.address).port)
    head = (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 99\r\n\r\n"
    )
    with socket.create_connection(address, 30) as slow:
        slow.sendall(head + b"{")
        for _ in range(20):
            with socket.create_connection(address, 10) as leaving:
                leaving.sendall(head.replace(b"99", b"19") + b'{"text": "Sunday !"}')
        assert service.translate("Sunday")[0] == 200
        assert b" 408 " in slow.recv(1000)
    end = after(30)
    while service.send("GET", "/health")[1]["waiting"] and not end():
        time.sleep(0.05)
    assert not end()


def test_too_much_at_once_is_told_to_wait(service):
    """Requests of 300 sentences fill the queue: some find no room, and are told so at once."""
    with ThreadPoolExecutor(10) as clients:
        found = list(clients.map(lambda _: service.translate(300 * ["Swiss German"]), range(10)))
    assert {status for status, _ in found} == {200, 429}
    refused = [answer["error"] for status, answer in found if status == 429]
    assert all("sentences are waiting, and 300 may: try again" in line for line in refused)
    assert all(len(answer["translations"]) == 300 for status, answer in found if status == 200)


def test_the_attention_of_a_sentence_is_a_page(service):
    status, page = service.send("GET", f"/attention?text={quote('Swiss <b>German</b>')}")
    assert status == 200 and page.startswith("<!DOCTYPE html>")
    assert "Attention" in page and "<b>German" not in page


def test_each_request_is_a_line_of_the_log(service):
    assert service.translate(["Sunday", "German"])[0] == 200
    service.send("GET", "/%0aforged%1b[31m", X_Forwarded_For="\x1b[2J" + 200 * "y")
    end = after(10)
    while "forged" not in service.log and not end():
        time.sleep(0.05)
    lines = service.log.splitlines()
    form = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| INFO \| aiayn serve \| "
    assert re.fullmatch(
        form + r"POST /translate 200, sentences: 2, \d+\.\d{3} s, from 127.0.0.1", lines[-2]
    )
    assert re.fullmatch(form + r"GET /\\nforged\\x1b\[31m 404, .*, from \\x1b\[2Jy{,96}", lines[-1])
    assert "Traceback" not in service.log


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_and_answers_first_what_it_was_asked(model_dir, tmp_path, by):
    with serving(model_dir, tmp_path) as service:
        found = []
        asking = threading.Thread(
            target=lambda: found.append(service.translate(500 * ["Swiss German"]))
        )
        asking.start()
        end = after(30)
        while not service.send("GET", "/health")[1]["waiting"] and not end():
            time.sleep(0.01)
        assert service.stop(by) == 0
        asking.join()
        assert found[0][0] == 200 and len(found[0][1]["translations"]) == 500
        assert service.log.endswith("| stopped\n")


@pytest.mark.parametrize(
    "options, message",
    [
        (["--port", "99999"], "--port 99999 must be from 0 to 65535"),
        (["--host", "a" * 300], "nothing can listen at aaaaa"),
        (["--host", "no.such.host.example"], "nothing can listen at no.such.host.example"),
        (["--max-waiting", "0"], "--max-waiting 0 must be at least 1"),
        (["--beam", "0"], "--beam 0 must be at least 1"),
    ],
)
def test_what_cannot_be_served_is_one_line(run, model_dir, options, message):
    done = run("aiayn", "serve", model_dir, *options, timeout=120)
    assert done.returncode == 1 and done.stderr.startswith(f"aiayn: error: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_a_port_that_is_taken_is_one_line(run, model_dir, service):
    port = str(urlsplit(service.address).port)
    done = run("aiayn", "serve", model_dir, "--port", port)
    assert done.returncode == 1 and f"port {port}: Address already in use" in done.stderr


@pytest.mark.parametrize(
    "host, others, known, unknown",
    [
        ("127.0.0.1", [], {"localhost", "127.0.0.1", "[::1]"}, {"127.0.0.2", "proxy"}),
        ("127.257", ["Proxy"], {"127.0.1.1", "127.257", "proxy"}, {"127.0.0.2"}),
        ("0", ["proxy"], {"proxy", "0.0.0.0", "localhost"}, {"10.0.0.1"}),
    ],
)
def test_the_names_of_a_service(host, others, known, unknown):
    with listen(host, 0) as listening:
        found = set(names(host, listening, others))
        number = listening.getsockname()[0]
        assert address(listening).startswith(f"http://{number}:") and number in found
    assert known <= found and not unknown & found


def test_where_everyone_may_ask_any_name_will_do():
    with listen("0", 0) as listening:
        assert names("0", listening, []) is None


def test_a_port_is_taken_before_the_model_is_loaded():
    with (
        listen("127.0.0.1", 0) as listening,
        pytest.raises(InputError, match="Address already in use"),
    ):
        listen("127.0.0.1", listening.getsockname()[1])
