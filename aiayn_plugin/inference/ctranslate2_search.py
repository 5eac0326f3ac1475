"""§6.1 Beam search by CTranslate2, a translation engine for CPUs (--engine ctranslate2)."""

from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.ctranslate2_model import build_specification, import_ctranslate2, max_positions
from ..checkpoints.loading import LoadedModel
from ..errors import InputError
from ..paper import SearchSettings
from ..search import Hypothesis
from ..search.batching import search_by_length
from ..search.rules import build_rules
from ..text.dictionary import Vocabulary


def build_translator(loaded: LoadedModel, precision: str) -> Any:
    """Return a float32 model as a ctranslate2.Translator of this precision, on the CPU.

    Raises InputError if CTranslate2 is not installed, and for a model or a precision that it does
    not support on this processor.
    """
    ctranslate2 = import_ctranslate2()
    specification = build_specification(loaded.model, loaded.source.symbols, loaded.target.symbols)
    specification.validate()
    specification.optimize()  # stores a shared embedding matrix only once
    with TemporaryDirectory(prefix="aiayn-") as directory:
        try:
            specification.save(directory)
            return ctranslate2.Translator(
                directory, compute_type=precision, intra_threads=torch.get_num_threads()
            )
        except ValueError as error:
            raise InputError(f"--precision {precision}: CTranslate2: {error}") from None
        except OSError as error:
            raise InputError(
                f"the model for CTranslate2 cannot be written to {directory}: {error.strerror}; "
                "set TMPDIR to a directory with more space"
            ) from None


class CTranslate2Search:
    """A search by CTranslate2's translator, with the interface of BeamSearch.

    CTranslate2 ends a sentence at `beam` finished hypotheses, as fairseq does. They are ranked by
    the length penalty of the settings. All sentences of a batch share the limit of the longest one,
    and the score of a hypothesis that reaches it lacks log P of the end symbol.
    """

    def __init__(self, loaded: LoadedModel, settings: SearchSettings) -> None:
        """Raises InputError for invalid settings, and for those CTranslate2 does not support."""
        for name, default in (("temperature", 1), ("unkpen", 0)):
            if getattr(settings, name) != default:
                raise InputError(f"engine ctranslate2 does not support {name}")
        self.translator, self.settings = loaded.translator, settings
        self.source, self.target = loaded.source, loaded.target
        self.rules = build_rules(settings, len(self.target))
        self.max_length = max_positions(loaded.model.decoder) - 1

    def search(
        self, sentences: Sequence[Tensor], max_tokens: int, progress: Callable[[int], object]
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first; see BeamSearch.search."""
        return search_by_length(self._search_batch, sentences, max_tokens, progress)

    def _search_batch(self, source: Tensor) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence of a padded batch (batch, m)."""
        width = source.size(1)
        limit = min(int(self.rules.limits(torch.tensor(width - 1), width)), self.max_length)
        if limit < (shortest := max(1, self.settings.min_len)):
            raise InputError(
                f"the limit of {limit} tokens is below {shortest}: lower min_len, or raise "
                "max_len_b"
            )
        results = self.translator.translate_batch(
            [self.source.decode(row[row.ne(Vocabulary.pad)].tolist()) for row in source],
            beam_size=self.settings.beam,
            num_hypotheses=self.settings.beam,
            # Ranks by log P. With 0 CTranslate2 would also wait for the best candidate to end.
            length_penalty=1e-9,
            min_decoding_length=self.settings.min_len,
            max_decoding_length=limit,
            max_input_length=0,  # no limit
            return_scores=True,
        )
        return list(map(self._rank, results))

    def _rank(self, result: Any) -> list[Hypothesis]:
        """Return a sentence's best hypotheses, scored with the settings' penalty."""
        hypotheses = []
        for symbols, log_p in zip(result.hypotheses, result.scores, strict=True):
            tokens = torch.tensor(self.target.encode(symbols))
            score = torch.tensor(log_p / self.rules.penalty(len(tokens)))
            unknown = torch.full((len(tokens),), torch.nan)  # CTranslate2 returns only their sum
            hypotheses.append(Hypothesis(tokens, score, unknown))
        return sorted(hypotheses, key=lambda h: -h.score.item())[: self.rules.kept]
