"""§6.3 Which symbols may follow, if a hypothesis has to be a tree over the sentence's words.

The paper's search has no such rule: it is an option. A tree is a sequence as linearisation.py makes
it: (S (NP NNP )NP (VP VBZ )VP )S is one over two words.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

NONE, OPEN, CLOSE, TAG = range(4)


class TreeGrammar:
    """The symbols of trees, and the pieces of sentences, as numbers of two dictionaries."""

    def __init__(
        self, pieces: Sequence[str], symbols: Sequence[str], special: int, eos: int, deepest: int
    ) -> None:
        """pieces, symbols: the source and the target dictionary.

        special: so many entries of each come first and are neither pieces nor symbols. deepest:
        brackets that may be open at once.
        """
        self.eos, self.deepest = eos, deepest
        self.ends_word = torch.tensor(
            [i >= special and not piece.endswith("@@") for i, piece in enumerate(pieces)]
        )
        closing = {symbol[1:]: i for i, symbol in enumerate(symbols) if symbol.startswith(")")}
        kinds, closed_by = [], []
        for i, symbol in enumerate(symbols):
            closed_by.append(closing.get(symbol[1:], eos))
            filler = i < special or symbol.startswith("madeupword")  # fairseq's, up to 8·n entries
            if filler or (symbol.startswith("(") and symbol[1:] not in closing):
                kinds.append(NONE)
            else:
                kinds.append({"(": OPEN, ")": CLOSE}.get(symbol[0], TAG))
        self.kind, self.closed_by = torch.tensor(kinds), torch.tensor(closed_by)

    def words(self, source: Tensor, unk: int) -> Tensor:
        """Return how many words the sentences (sentences, m) have; an unknown piece is a word."""
        return (self.ends_word.to(source.device)[source] | source.eq(unk)).sum(dim=1)

    def allowed(self, symbols: Tensor, words: Tensor, room: Tensor) -> Tensor:
        """Return which symbols may follow, (sentences, b, V).

        symbols: (sentences, b, t), the hypotheses so far. words: (sentences,), of the sentence.
        room: (sentences,), how many more symbols a hypothesis may have, without the end symbol.

        For example, after (S (NP NN over two words: any tag; )NP; and an opening bracket, if there
        is room for it, for its closing one, for the word that is left, and for )NP and )S.
        """
        kind, closed_by = self.kind.to(symbols.device), self.closed_by.to(symbols.device)
        kinds = kind[symbols]
        depth = (kinds.eq(OPEN).long() - kinds.eq(CLOSE).long()).cumsum(dim=2)
        now = depth[:, :, -1] if symbols.size(2) else depth.new_zeros(symbols.shape[:2])
        left = words[:, None] - kinds.eq(TAG).sum(dim=2)
        begun = symbols.size(2) > 0
        fresh = kinds[:, :, -1].eq(OPEN) if begun else torch.zeros_like(now, dtype=torch.bool)
        whole = now.eq(0) & (begun | words.eq(0)[:, None])  # no word has no tree

        tag = now.gt(0) & left.gt(0)
        open_ = left.gt(0) & ~whole & now.lt(self.deepest) & (room[:, None] >= left + now + 2)
        close = now.gt(0) & ~fresh & (now.gt(1) | left.eq(0))
        may = (tag[:, :, None] & kind.eq(TAG)) | (open_[:, :, None] & kind.eq(OPEN))
        if begun:
            # The bracket that is open is the last opening one after which the depth was as now.
            opening = kinds.eq(OPEN) & depth.eq(now[:, :, None])
            place = (opening * torch.arange(1, symbols.size(2) + 1, device=now.device)).amax(dim=2)
            innermost = symbols.gather(2, (place - 1).clamp(min=0)[:, :, None])
            closing = closed_by[innermost]
            may |= torch.zeros_like(may).scatter(2, closing, close[:, :, None])
        may[:, :, self.eos] = whole
        return may
