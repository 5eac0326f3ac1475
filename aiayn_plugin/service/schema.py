"""What a request may ask for, and what is wrong with one that asks for something else."""

import json
from dataclasses import dataclass
from typing import Any

from ..errors import InputError


class Refusal(InputError):
    """A request that cannot be answered, with the status of HTTP that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """What one request may ask for."""

    characters: int  #: of a sentence
    waiting: int  #: sentences, of all requests together
    nbest: int

    @property
    def bytes(self) -> int:
        """Return how long a body may be: room for 16 sentences of the longest, or 1 MB."""
        # JSON writes a character in at most 12 bytes: "\ud83d\ude00".
        return max(16 * 12 * self.characters, 1_000_000)

    def check(self, sentence: Any, name: str) -> None:
        """Raise Refusal for what is no text, or too long."""
        if not isinstance(sentence, str):
            raise Refusal(400, f"{name} is no text")
        if len(sentence) > self.characters:
            raise Refusal(
                413,
                f"{name} has {len(sentence):,} characters, and may have "
                f"{self.characters:,}: split it into sentences",
            )
        try:
            sentence.encode()
        except UnicodeEncodeError:
            raise Refusal(400, f"{name} has half of a character (a lone surrogate)") from None


@dataclass(frozen=True)
class Asked:
    """Sentences to translate, and how many translations of each."""

    sentences: list[str]
    nbest: int


def read_asked(body: bytes, limits: Limits) -> Asked:
    """Return what {"text": "…" or ["…", …], "nbest": N} asks for. Raises Refusal."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is no JSON: {error}") from None
    if not isinstance(asked, dict) or "text" not in asked:
        raise Refusal(400, 'the body must be an object with "text": a sentence, or a list of them')
    if unknown := sorted(asked.keys() - {"text", "nbest"}):
        raise Refusal(400, f'{json.dumps(unknown[0])} is unknown: the body has "text" and "nbest"')
    text, nbest = asked["text"], asked.get("nbest", 1)
    if type(nbest) is not int or not 1 <= nbest <= limits.nbest:
        raise Refusal(400, f'"nbest" must be a number from 1 to {limits.nbest}')
    sentences = [text] if isinstance(text, str) else text
    if not isinstance(sentences, list) or not sentences:
        raise Refusal(400, '"text" must be a sentence, or a list of at least one')
    if len(sentences) > limits.waiting:
        raise Refusal(
            413,
            f"{len(sentences):,} sentences are too many: send at most {limits.waiting:,} at once",
        )
    for number, sentence in enumerate(sentences, start=1):
        limits.check(sentence, f"sentence {number}")
    return Asked(sentences, nbest)
