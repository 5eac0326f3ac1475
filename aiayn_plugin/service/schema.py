"""The requests that the service accepts, and their limits."""

import json
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException


@dataclass(frozen=True)
class Limits:
    """The largest request that the service accepts."""

    characters: int  #: per sentence
    queued: int  #: sentences of all requests together
    nbest: int

    @property
    def body_bytes(self) -> int:
        """The limit of a request body: 16 sentences of maximum length, but at least 1 MB."""
        # JSON writes a character in at most 12 bytes: "\ud83d\ude00".
        return max(16 * 12 * self.characters, 1_000_000)

    def check(self, sentence: Any, name: str) -> None:
        """Raise HTTPException if a sentence is not a string or is too long."""
        if not isinstance(sentence, str):
            raise HTTPException(400, f"{name} must be a string")
        if len(sentence) > self.characters:
            raise HTTPException(
                413,
                f"{name} has {len(sentence):,} characters; the limit is {self.characters:,}: "
                "split it into shorter sentences",
            )
        try:
            sentence.encode()
        except UnicodeEncodeError:
            raise HTTPException(400, f"{name} contains a lone surrogate") from None


def parse_request(body: bytes, limits: Limits) -> tuple[list[str], int]:
    """Return the sentences to translate, and the number of translations of each.

    body: {"text": "…" or ["…", …], "nbest": N}. Raises HTTPException for any other body.
    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(fields, dict) or "text" not in fields:
        raise HTTPException(
            400, 'the body must be an object with "text": a sentence or a list of sentences'
        )
    if unknown := sorted(fields.keys() - {"text", "nbest"}):
        raise HTTPException(
            400, f'unknown field {json.dumps(unknown[0])}: the fields are "text" and "nbest"'
        )
    text, nbest = fields["text"], fields.get("nbest", 1)
    if type(nbest) is not int or not 1 <= nbest <= limits.nbest:
        raise HTTPException(400, f'"nbest" must be an integer from 1 to {limits.nbest}')
    sentences = [text] if isinstance(text, str) else text
    if not isinstance(sentences, list) or not sentences:
        raise HTTPException(400, '"text" must be a sentence or a non-empty list of sentences')
    if len(sentences) > limits.queued:
        raise HTTPException(
            413, f"too many sentences: {len(sentences):,}; send at most {limits.queued:,} at once"
        )
    for number, sentence in enumerate(sentences, start=1):
        limits.check(sentence, f"sentence {number}")
    return sentences, nbest
