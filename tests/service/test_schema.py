"""What a request may ask for."""

import json

import pytest

from aiayn_plugin.service.schema import Asked, Limits, Refusal, read_asked

LIMITS = Limits(characters=10, waiting=3, nbest=4)


@pytest.mark.parametrize(
    "body, asked",
    [
        ('{"text": "A man ."}', Asked(["A man ."], 1)),
        ('{"text": ""}', Asked([""], 1)),
        ('{"text": ["a", "b"], "nbest": 4}', Asked(["a", "b"], 4)),
        ('{"text": "\\ud83d\\ude00ä"}', Asked(["😀ä"], 1)),
        ('{"text": "1234567890"}', Asked(["1234567890"], 1)),
    ],
)
def test_a_sentence_or_a_list_of_them(body, asked):
    assert read_asked(body.encode(), LIMITS) == asked


@pytest.mark.parametrize(
    "body, status, message",
    [
        ("", 400, "the body is no JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"\xff\xfe\xfd", 400, "the body is no JSON: "),
        ("[" * 100_000, 400, "the body is no JSON: "),
        ('{"text": ' + "9" * 10_000 + "}", 400, "the body is no JSON: "),
        ('"A man ."', 400, 'the body must be an object with "text": a sentence, or a list of them'),
        ("{}", 400, 'the body must be an object with "text"'),
        ('{"text": "a", "beam": 2}', 400, '"beam" is unknown: the body has "text" and "nbest"'),
        ('{"text": "a", "\\ud83d": 2}', 400, '"\\ud83d" is unknown'),
        ('{"text": 5}', 400, '"text" must be a sentence, or a list of at least one'),
        ('{"text": []}', 400, '"text" must be a sentence, or a list of at least one'),
        ('{"text": ["a", null]}', 400, "sentence 2 is no text"),
        ('{"text": "\\ud83d"}', 400, "sentence 1 has half of a character (a lone surrogate)"),
        ('{"text": "a", "nbest": 0}', 400, '"nbest" must be a number from 1 to 4'),
        ('{"text": "a", "nbest": 5}', 400, '"nbest" must be a number from 1 to 4'),
        ('{"text": "a", "nbest": true}', 400, '"nbest" must be a number from 1 to 4'),
        (
            '{"text": "12345678901"}',
            413,
            "sentence 1 has 11 characters, and may have 10: split it into sentences",
        ),
        ('{"text": ["a", "b", "c", "d"]}', 413, "4 sentences are too many: send at most 3 at once"),
    ],
)
def test_anything_else_is_refused_in_one_line(body, status, message):
    with pytest.raises(Refusal) as refused:
        read_asked(body if isinstance(body, bytes) else body.encode(), LIMITS)
    assert refused.value.status == status
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)


def test_the_longest_request_fits_into_the_limit_of_a_body():
    limits = Limits(characters=30_000, waiting=3, nbest=1)
    longest = json.dumps({"text": 3 * ["😀" * 30_000], "nbest": 1}).encode()
    assert len(longest) < limits.bytes
    assert len(read_asked(longest, limits).sentences) == 3
