"""§6.1 Beam search by the rules of the paper or of fairseq."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..errors import InputError
from ..kernels.chunking import rows_per_chunk
from ..kernels.topk import topk
from ..model.transformer import Transformer
from ..paper import SearchSettings
from ..parsing.grammar import TreeGrammar
from ..text.dictionary import Vocabulary
from .batching import search_by_length, search_in_threads
from .decoder_step import AiaynSearchModel, Decoding, SearchModel
from .hypotheses import Choices, FinishedHypotheses, Hypothesis, OpenHypotheses
from .oom import BatchHalver
from .rules import build_rules

#: Finished sentences are dropped from a batch once they make up this share of it. Dropping them
#: copies cache rows of the rest; keeping them decodes hypotheses that are never used.
FINISHED_SHARE = 1 / 8
#: Elements of a bfloat16 score matrix that stay in a CPU's caches until the best are chosen.
#: float32 is faster with more, because its matmul reads the whole weight matrix for each chunk.
BFLOAT16_SCORES = 2**20

#: Changes log P of the next token (batch, b, V), given the hypotheses so far (batch, b, length).
#: Results above 0 need stop_early=False, since stopping early assumes that scores only fall.
ScoreAdjustment = Callable[[Tensor, Tensor], Tensor]


@dataclass
class SearchState:
    """A search in progress."""

    decodings: list[Decoding]
    open: OpenHypotheses
    finished: FinishedHypotheses
    lowest_limit: int  #: of all sentences
    step: int = 0
    history: list[Choices] = field(default_factory=list)  #: of each step


def generate(
    model: Transformer,
    source: Tensor,
    settings: SearchSettings = SearchSettings(),  # noqa: B008
) -> Tensor:
    """Return the best translation of each sentence by beam search, as token IDs (batch, n).

    model: in evaluation mode. source: (batch, m), each sentence with its end symbol, padded on
    either side; see Transformer. settings: by default the paper's; SearchSettings(beam=1) is a
    greedy search. Each row ends with the end symbol, then padding, on the device of the source.
    Raises the InputErrors of BeamSearch, which also returns scores and further hypotheses.
    """
    search = BeamSearch(settings, [AiaynSearchModel(model.encoder, model.decoder)])
    best = [hypotheses[0].tokens for hypotheses in search.search_batch(source)]
    return pad_sequence(best, batch_first=True, padding_value=Vocabulary.pad).to(source.device)


class BeamSearch:
    """Beam search with a model or an ensemble.

    An end symbol finishes a hypothesis if it is among the b best candidates of its sentence. An
    ensemble's P is the mean over its models.
    """

    def __init__(
        self,
        settings: SearchSettings,
        models: Sequence[SearchModel],
        *,
        constraint: TreeGrammar | None = None,
        adjust_scores: ScoreAdjustment | None = None,
        need_attention: bool = False,
        use_threads: bool = True,
    ) -> None:
        """Prepare a search; raises InputError for invalid settings.

        use_threads: search a large batch on a CPU in threads, which share the models.
        """
        self.settings, self.models = settings, list(models)
        self.vocabulary_size = models[0].vocabulary_size
        self.rules = build_rules(settings, self.vocabulary_size)
        self.max_length = min(model.max_positions for model in models) - 1
        self.constraint, self.adjust_scores = constraint, adjust_scores
        self.need_attention = need_attention
        self.use_threads = use_threads
        self._halver = BatchHalver()

    def search(
        self,
        sentences: Sequence[Tensor],
        max_tokens: int = 2000,
        progress: Callable[[int], object] = lambda sentences: None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first.

        sentences: source token IDs, the end symbol last. max_tokens: source tokens of a batch,
        padding included. progress is called after each batch with its number of sentences. Raises
        InputError as search_batch does.
        """
        return search_by_length(self.search_batch, sentences, max_tokens, progress)

    def search_batch(self, source: Tensor, prefix: Tensor | None = None) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence of a batch, best first.

        source: (batch, m) tokens. prefix: (batch, n) tokens with which each translation begins,
        then padding. A batch that does not fit in memory is searched in halves. Raises InputError
        if a single sentence does not fit, if min_len is above the limit of a sentence, and if a
        sentence has no hypothesis.
        """
        source = source.to(self.models[0].weight.device)
        prefix = None if prefix is None else prefix.to(source.device)

        def search_rows(rows: slice) -> list[list[Hypothesis]]:
            state = self._search(source[rows], None if prefix is None else prefix[rows])
            return state.finished.trace_back(state.history)

        threads = torch.get_num_threads() if self.use_threads and source.is_cpu else 1
        search = partial(search_in_threads, search_rows, threads)
        hypotheses = self._halver.search(search, slice(0, len(source)))
        if [] in hypotheses:
            raise InputError(
                "a sentence has no hypothesis: the model's scores are not finite (try float32), or "
                "all tokens are forbidden"
            )
        return hypotheses

    @torch.inference_mode()
    def _search(self, source: Tensor, prefix: Tensor | None) -> SearchState:
        """Return the state after the last step."""
        pad, eos = Vocabulary.pad, Vocabulary.eos
        decodings = [model.start(source) for model in self.models]
        lengths = (source.ne(pad) & source.ne(eos)).sum(dim=1)
        limits = self.rules.limits(lengths, source.size(1)).clamp(max=self.max_length)
        lowest_limit, highest_limit = int(limits.min()), int(limits.max())
        if lowest_limit < self.settings.min_len:
            raise InputError(
                f"--min-len {self.settings.min_len} is above the limit of {lowest_limit} tokens: "
                "lower it, or raise --max-len-b"
            )
        dtype = torch.promote_types(self.models[0].weight.dtype, torch.float32)
        no_scores = torch.empty(0, dtype=dtype, device=source.device)
        state = SearchState(
            decodings,
            OpenHypotheses(
                sentence=torch.arange(len(source), device=source.device),
                limit=limits,
                tokens=torch.full_like(source[:, :1, None], eos),
                score=no_scores.new_zeros(len(source), 1),
                prefix=prefix,
                constraint=self.constraint.start(source, limits) if self.constraint else None,
            ),
            FinishedHypotheses(len(source), self.rules, like=no_scores),
            lowest_limit,
        )
        for step in range(highest_limit + 1):
            state.step = step
            features, attention = self._advance(state)
            self._choose(state, *self._best_tokens(state, features), attention)
            if not self._drop_finished(state):
                break
        return state

    def _advance(self, state: SearchState) -> tuple[list[Tensor], Tensor | None]:
        """Return each model's features of the next token, (batch, b, …), and the attention."""
        last = state.open.tokens, state.open.parents
        steps = [decoding.step(*last, self.need_attention) for decoding in state.decodings]
        weights = [attention for _, attention in steps if attention is not None]
        attention = torch.stack(weights).mean(dim=0) if weights else None
        return [features for features, _ in steps], attention

    def _best_tokens(self, state: SearchState, features: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return log P and IDs of the best next tokens of each hypothesis, (batch, b, n).

        n is 2b, or the vocabulary size if that is smaller. 2b suffice: of the 2b best candidates of
        a sentence at most b end, one for each hypothesis. Scores are computed for a few sentences
        at a time.
        """
        sentences, b = state.open.score.shape
        at_once = self._sentences_at_once(b, features[0])
        best = []
        for start in range(0, sentences, at_once):
            rows = slice(start, start + at_once)
            scores = self._scores(state, [x[rows] for x in features], state.open.select(rows))
            best.append(topk(scores, min(2 * self.settings.beam, scores.size(2))))
        log_p, token = (torch.cat(chunks) for chunks in zip(*best, strict=True))
        return log_p, token

    def _sentences_at_once(self, b: int, features: Tensor) -> int:
        """Return the number of sentences of b hypotheses to compute scores for at once."""
        row = b * self.vocabulary_size
        at_once = rows_per_chunk(row, features.device.type)
        if features.device.type == "cpu" and features.dtype == torch.bfloat16:
            at_once = min(at_once, max(BFLOAT16_SCORES // row, 32 // b, 1))
        return at_once

    def _scores(
        self, state: SearchState, features: list[Tensor], hypotheses: OpenHypotheses
    ) -> Tensor:
        """Return log P of the next token (batch, b, V); −∞ for tokens that may not come next.

        features, hypotheses: of a chunk of the sentences.
        """
        log_ps = [
            decoding.log_probabilities(x, self.settings.temperature)
            for decoding, x in zip(state.decodings, features, strict=True)
        ]
        scores = log_ps[0]
        if len(log_ps) > 1:
            scores = torch.stack(log_ps).logsumexp(dim=0) - math.log(len(log_ps))
        if self.adjust_scores is not None:
            scores = self.adjust_scores(scores, hypotheses.tokens)
        self._forbid(scores, hypotheses, state)
        return scores

    def _forbid(self, scores: Tensor, hypotheses: OpenHypotheses, state: SearchState) -> None:
        """Set to −∞, in place, the scores of tokens that may not come next."""
        pad, eos, unk = Vocabulary.pad, Vocabulary.eos, Vocabulary.unk
        limit, prefix, step = hypotheses.limit, hypotheses.prefix, state.step
        scores[:, :, pad] = -math.inf
        if self.constraint is not None and hypotheses.constraint is not None:
            allowed = self.constraint.allowed(
                hypotheses.tokens, hypotheses.constraint, limit - step
            )
            scores.masked_fill_(~allowed, -math.inf)
        if self.settings.unkpen:
            scores[:, :, unk] -= self.settings.unkpen
        if step >= state.lowest_limit:  # sentences at their limit must end
            at_limit = limit.le(step)[:, None, None]
            not_eos = torch.arange(scores.size(2), device=scores.device).ne(eos)
            scores.masked_fill_(at_limit & not_eos, -math.inf)
        if prefix is not None and step < prefix.size(1):
            forced = prefix[:, step, None, None].expand(-1, scores.size(1), 1)
            # A prefix overrides neither the limit nor the constraint.
            applies = forced.ne(pad) & limit.gt(step)[:, None, None]
            is_other = torch.ones_like(scores, dtype=torch.bool).scatter(2, forced, False)
            scores.masked_fill_(applies & is_other, -math.inf)
        if step < self.settings.min_len:
            end = scores[:, :, eos].clone()
            scores[:, :, eos] = -math.inf
            if prefix is not None or self.constraint is not None:
                # A prefix may end here, and an empty line, which has no tree, must.
                is_only = scores.amax(dim=2).eq(-math.inf)
                scores[:, :, eos] = end.masked_fill(~is_only, -math.inf)

    def _choose(
        self, state: SearchState, log_p: Tensor, token: Tensor, attention: Tensor | None
    ) -> None:
        """Finish those of the b best candidates that end, and extend the b best that do not.

        log_p, token: (batch, b, n), the n best next tokens of each hypothesis. attention: of each
        hypothesis, (batch, b, m), or None.
        """
        open_, b, n = state.open, self.settings.beam, token.size(2)
        candidates = min(2 * b, n * token.size(1))
        total, index = (log_p + open_.score[:, :, None]).flatten(1).topk(candidates, dim=1)
        token, parent = token.flatten(1).gather(1, index), index // n
        end = token.eq(Vocabulary.eos)
        if end.device.type == "cpu" and not end.any():  # a GPU would have to synchronise
            open_.score, open_.parents, token = (x[:, :b] for x in (total, parent, token))
        else:
            state.finished.add(open_.sentence, total[:, :b], parent[:, :b], end[:, :b], state.step)
            # The first b that do not end, in order. With a tiny vocabulary there may be fewer; then
            # candidates that end fill the beam, with score −∞.
            rank = end * candidates + torch.arange(candidates, device=end.device)
            order = rank.topk(b, largest=False).indices
            open_.score = total.masked_fill(end, -math.inf).gather(1, order)
            open_.parents = parent.gather(1, order)
            token = token.gather(1, order)
        past = open_.parents[:, :, None].expand(-1, -1, open_.tokens.size(2))
        open_.tokens = torch.cat((open_.tokens.gather(1, past), token[:, :, None]), dim=2)
        choices = Choices(open_.sentence, token, open_.parents, open_.score, attention)
        state.history.append(choices)

    def _drop_finished(self, state: SearchState) -> bool:
        """Drop finished sentences once there are enough; return whether any is unfinished."""
        open_, finished = state.open, state.finished
        best, worst = open_.score.amax(dim=1), finished.score[open_.sentence, -1]
        done = best.eq(-math.inf)  # also at the limit, where only the end symbol may follow
        done |= self.rules.are_finished(worst, best, finished.count[open_.sentence], open_.limit)
        if not done.any():
            return True
        rows = remaining_rows(done)
        if 0 < len(rows) <= (1 - FINISHED_SHARE) * len(done):
            state.open = open_.select(rows)
            for decoding in state.decodings:
                decoding.keep(rows)
        return len(rows) > 0


def remaining_rows(finished: Tensor) -> Tensor:
    """Return the unfinished rows, with the last ones moved into gaps, so that few rows move.

    For example, with rows 1 and 3 of five finished: 0, 4, 2.
    """
    rows = (~finished).nonzero()[:, 0]
    count = len(rows)
    gaps = finished[:count].nonzero()[:, 0]
    moved = rows[count - len(gaps) :]
    rows = torch.arange(count, device=finished.device)
    return rows.index_copy_(0, gaps, moved)
