"""§6.3 Constrained decoding: the symbols that keep a hypothesis a tree over the sentence.

The paper's search has no such rule; it is an option. Trees are linearised as in linearisation.py:
(S (NP NNP )NP (VP VBZ )VP )S is a tree over two words.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import InputError
from ..text.dictionary import SPECIAL_SYMBOLS, Vocabulary
from ..text.settings import MAX_TREE_DEPTH

NOT_ALLOWED, OPEN, CLOSE, TAG = range(4)


class TreeGrammar:
    """A grammar that restricts the search to trees."""

    def __init__(
        self, subwords: Sequence[str], symbols: Sequence[str], max_depth: int = MAX_TREE_DEPTH - 2
    ) -> None:
        """Classify the entries of the source dictionary (subwords) and target dictionary (symbols).

        max_depth: brackets that may be open at once.
        """
        self.max_depth = max_depth
        self.ends_word = torch.tensor(
            [
                i == Vocabulary.unk or (i >= len(SPECIAL_SYMBOLS) and not subword.endswith("@@"))
                for i, subword in enumerate(subwords)
            ]
        )
        closing = {symbol[1:]: i for i, symbol in enumerate(symbols) if symbol.startswith(")")}
        kinds, closed_by = [], []
        for i, symbol in enumerate(symbols):
            closed_by.append(closing.get(symbol[1:], Vocabulary.eos))
            # fairseq pads dictionaries to a multiple of 8 entries with "madeupword…".
            is_filler = i < len(SPECIAL_SYMBOLS) or symbol.startswith("madeupword")
            if is_filler or (symbol.startswith("(") and symbol[1:] not in closing):
                kinds.append(NOT_ALLOWED)
            else:
                kinds.append({"(": OPEN, ")": CLOSE}.get(symbol[0], TAG))
        self.kind, self.closed_by = torch.tensor(kinds), torch.tensor(closed_by)

    def start(self, source: Tensor, limits: Tensor) -> Tensor:
        """Return the number of words (batch,) of sentences (batch, m); unknown subwords count.

        Raises InputError if a sentence's limit (batch,) is below its smallest tree.
        """
        words = self.ends_word.to(source.device)[source].sum(dim=1)
        for n, limit in zip(words.tolist(), limits.tolist(), strict=True):
            if 0 < n and limit < n + 2:
                raise InputError(
                    f"a tree over {n} words needs {n + 2} symbols, but the limit is {limit}: raise "
                    "--max-len-b"
                )
        return words

    def allowed(self, tokens: Tensor, words: Tensor, remaining: Tensor) -> Tensor:
        """Return which symbols may follow, boolean (batch, b, V).

        tokens: (batch, b, 1 + t) start symbol and symbols so far. words: (batch,) number of words
        of the sentence. remaining: (batch,) how many more symbols a hypothesis may have, without
        the end symbol.

        For example, after (S (NP NN over two words: any tag; )NP; and an opening bracket if the
        limit leaves space for it, its closing bracket, the second word, )NP and )S.
        """
        kind, closed_by = self.kind.to(tokens.device), self.closed_by.to(tokens.device)
        kinds, has_begun = kind[tokens], tokens.size(2) > 1
        depths = (kinds.eq(OPEN).long() - kinds.eq(CLOSE).long()).cumsum(dim=2)
        depth = depths[:, :, -1]
        words_left = words[:, None] - kinds.eq(TAG).sum(dim=2)
        is_empty = kinds[:, :, -1].eq(OPEN)  # nothing follows the opening bracket yet
        is_complete = depth.eq(0) & (has_begun | words.eq(0)[:, None])  # no words, no tree

        may_tag = depth.gt(0) & words_left.gt(0)
        may_open = words_left.gt(0) & ~is_complete & depth.lt(self.max_depth)
        may_open &= remaining[:, None] >= words_left + depth + 2
        may_close = depth.gt(0) & ~is_empty & (depth.gt(1) | words_left.eq(0))
        allowed = (may_tag[:, :, None] & kind.eq(TAG)) | (may_open[:, :, None] & kind.eq(OPEN))
        # The innermost open bracket is the last opening one that led to the current depth.
        opening = kinds.eq(OPEN) & depths.eq(depth[:, :, None])
        last = (opening * torch.arange(tokens.size(2), device=depth.device)).amax(dim=2)
        closing = closed_by[tokens.gather(2, last[:, :, None])]
        allowed |= torch.zeros_like(allowed).scatter(2, closing, may_close[:, :, None])
        allowed[:, :, Vocabulary.eos] = is_complete
        return allowed
