"""Which requests are accepted."""

import json

import pytest
from starlette.exceptions import HTTPException

from aiayn_plugin.service.schema import Limits, parse_request

LIMITS = Limits(characters=10, queued=3, nbest=4)


@pytest.mark.parametrize(
    "body, expected",
    [
        ('{"text": "A man ."}', (["A man ."], 1)),
        ('{"text": ""}', ([""], 1)),
        ('{"text": ["a", "b"], "nbest": 4}', (["a", "b"], 4)),
        ('{"text": "\\ud83d\\ude00ä"}', (["😀ä"], 1)),
        ('{"text": "1234567890"}', (["1234567890"], 1)),
    ],
)
def test_a_sentence_or_a_list_of_sentences_is_accepted(body, expected):
    assert parse_request(body.encode(), LIMITS) == expected


@pytest.mark.parametrize(
    "body, status, message",
    [
        ("", 400, "the body is not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"\xff\xfe\xfd", 400, "the body is not valid JSON: "),
        ("[" * 100_000, 400, "the body is not valid JSON: "),
        ('{"text": ' + "9" * 10_000 + "}", 400, "the body is not valid JSON: "),
        ('"A man ."', 400, 'the body must be an object with "text": a sentence or a list'),
        ("{}", 400, 'the body must be an object with "text"'),
        ('{"text": "a", "beam": 2}', 400, 'unknown field "beam": the fields are "text" and'),
        ('{"text": "a", "\\ud83d": 2}', 400, 'unknown field "\\ud83d"'),
        ('{"text": 5}', 400, '"text" must be a sentence or a non-empty list of sentences'),
        ('{"text": []}', 400, '"text" must be a sentence or a non-empty list of sentences'),
        ('{"text": ["a", null]}', 400, "sentence 2 must be a string"),
        ('{"text": "\\ud83d"}', 400, "sentence 1 contains a lone surrogate"),
        ('{"text": "a", "nbest": 0}', 400, '"nbest" must be an integer from 1 to 4'),
        ('{"text": "a", "nbest": 5}', 400, '"nbest" must be an integer from 1 to 4'),
        ('{"text": "a", "nbest": true}', 400, '"nbest" must be an integer from 1 to 4'),
        ('{"text": "12345678901"}', 413, "sentence 1 has 11 characters; the limit is 10: split"),
        ('{"text": ["a", "b", "c", "d"]}', 413, "too many sentences: 4; send at most 3 at once"),
    ],
)
def test_other_requests_are_rejected_with_one_line(body, status, message):
    with pytest.raises(HTTPException) as error:
        parse_request(body if isinstance(body, bytes) else body.encode(), LIMITS)
    assert error.value.status_code == status
    assert error.value.detail.startswith(message) and "\n" not in error.value.detail


def test_the_largest_valid_request_fits_into_the_limit_of_the_body():
    limits = Limits(characters=30_000, queued=3, nbest=1)
    body = json.dumps({"text": 3 * ["😀" * 30_000], "nbest": 1}).encode()
    assert len(body) < limits.body_bytes
    assert len(parse_request(body, limits)[0]) == 3
