"""§6.1 Beam search, under the rules of the paper or of fairseq."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..errors import InputError
from ..kernels.topk import topk
from ..model.embedding import score_rows
from ..parsing.grammar import TreeGrammar
from .decoder_step import StepwiseModel
from .hypotheses import Choices, Finished, History, OpenHypotheses
from .rules import Rules

#: Sentences that are done leave their batch as soon as they are an eighth of it. To leave costs a
#: copy of the caches of all others; to stay costs the steps of hypotheses that nobody reads.
DONE_SHARE = 1 / 8
#: So few scores stay in a CPU's caches until the best of them are chosen: with 2^23 a search of
#: base takes 1.07 times as long in bfloat16. In float32 it is faster with 2^23: there the product
#: takes longer, which reads the whole matrix for each piece.
SCORES_IN_BFLOAT16 = 2**20


@dataclass
class State:
    """A search in progress."""

    models: list[StepwiseModel]
    open: OpenHypotheses
    finished: Finished
    lowest_limit: int  #: of all sentences
    step: int = 0
    history: History = field(default_factory=History)


class BeamSearch:
    """The search over the next tokens that some models propose.

    fairseq_plugin/generator.py inherits from this class and from fairseq's SequenceGenerator, which
    sets all of these attributes but the first three.
    """

    rules: Rules
    grammar: TreeGrammar | None  #: of hypotheses that have to be trees
    want_attention: bool
    beam_size: int  #: b
    vocab_size: int
    pad: int
    unk: int
    eos: int
    max_len: int
    min_len: int
    temperature: float
    unk_penalty: float
    token_indices_to_suppress: Tensor | None

    @torch.no_grad()
    def find(
        self, models: list[StepwiseModel], source: Tensor, prefix: Tensor | None, first_token: int
    ) -> list[list[dict]]:
        """Return the hypotheses of each sentence, best first; [] for a sentence without any.

        source: (sentences, m) tokens. prefix: (sentences, n) tokens that each translation begins
        with, or padding. first_token: what the models read first.
        Raises InputError if min_len is above the limit of a sentence.
        """
        lengths = (source.ne(self.pad) & source.ne(self.eos)).sum(dim=1)
        limits = self.rules.limits(lengths, source.size(1)).clamp(max=self.max_len - 1)
        lowest, longest = (int(limits.min()), int(limits.max())) if len(limits) else (0, -1)
        if lowest < self.min_len and len(limits):
            raise InputError(
                f"--min-len {self.min_len} is more than the limit of {lowest} "
                "tokens: lower it, or raise --max-len-b"
            )
        zero = torch.zeros(len(source), 1, dtype=self.score_dtype(), device=source.device)
        numbers = torch.arange(len(source), device=source.device)
        first = torch.full_like(source[:, :1, None], first_token)
        words = self.grammar.words(source, self.unk) if self.grammar else None
        if words is not None:
            self._check_room(words, limits)
        state = State(
            models,
            OpenHypotheses(numbers, limits, first, zero, prefix, words=words),
            Finished(len(source), self.rules, zero),
            lowest,
        )
        for step in range(longest + 1):
            state.step = step
            self._choose(state, *self._best_tokens(state, self._advance(state)))
            if not self._drop_done(state):
                break
        return state.finished.read(state.history, self.eos)

    def _check_room(self, words: Tensor, limits: Tensor) -> None:
        """Raise InputError if a sentence's limit has no room for the smallest tree over it."""
        for number, limit in zip(words.tolist(), limits.tolist(), strict=True):
            if 0 < number and limit < number + 2:
                raise InputError(
                    f"a tree over {number} words needs {number + 2} symbols, and the "
                    f"limit is {limit}: raise --max-len-b"
                )

    def score_dtype(self) -> torch.dtype:
        """Return the precision of the scores."""
        return torch.float32

    def _advance(self, state: State) -> list[Tensor]:
        """Return each model's features of the next token, (sentences, b, …)."""
        features, weights = [], []
        for model in state.models:
            next_features, attention = model.step(
                state.open.tokens, state.open.parents, self.want_attention
            )
            features.append(next_features)
            if attention is not None:
                weights.append(attention)
        if weights and self.want_attention:
            attention = torch.stack(weights).mean(dim=0)
            state.history.attention.append((state.open.sentence, attention))
        return features

    def _best_tokens(self, state: State, features: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return log P and number of the best next tokens of each hypothesis, (sentences, b, n).

        n is 2b, or the vocabulary if that is smaller. 2b are enough: of the 2b best candidates of a
        sentence at most b end, one for each hypothesis. The scores are computed for a few sentences
        at once.
        """
        sentences, b = state.open.score.shape
        at_once = score_rows(b * self.vocab_size, state.open.score.device.type)
        if features[0].device.type == "cpu" and features[0].dtype == torch.bfloat16:
            at_once = min(at_once, max(SCORES_IN_BFLOAT16 // (b * self.vocab_size), 32 // b, 1))
        best = []
        for start in range(0, sentences, at_once):
            piece = slice(start, start + at_once)
            scores = self._scores(state, [x[piece] for x in features], state.open.part(piece))
            best.append(topk(scores, min(2 * self.beam_size, scores.size(2))))
        log_p, token = (torch.cat(parts) for parts in zip(*best, strict=True))
        return log_p, token

    def _scores(self, state: State, features: list[Tensor], hypotheses: OpenHypotheses) -> Tensor:
        """Return log P of the next token (sentences, b, V); −∞ for what may not come next.

        P is the mean over all models. features, hypotheses: of some of the sentences.
        """
        log_ps = [
            model.log_probabilities(x, self.temperature)
            for model, x in zip(state.models, features, strict=True)
        ]
        scores = log_ps[0]
        if len(log_ps) > 1:
            scores = torch.stack(log_ps).logsumexp(dim=0) - math.log(len(log_ps))
        scores = self.add_language_model(scores, hypotheses)
        self._forbid(scores, hypotheses, state)
        self.forbid_repeats(scores, hypotheses, state.step)
        return scores

    def add_language_model(self, scores: Tensor, hypotheses: OpenHypotheses) -> Tensor:
        """Return the scores, with those of a language model added if there is one."""
        return scores

    def forbid_repeats(self, scores: Tensor, hypotheses: OpenHypotheses, step: int) -> None:
        """Forbid, in place, the tokens that would repeat an n-gram."""

    def _forbid(self, scores: Tensor, hypotheses: OpenHypotheses, state: State) -> None:
        """Set to −∞, in place, what may not come next."""
        limit, prefix, step = hypotheses.limit, hypotheses.prefix, state.step
        scores[:, :, self.pad] = -math.inf
        if self.grammar is not None and hypotheses.words is not None:
            symbols, words = hypotheses.tokens[:, :, 1:], hypotheses.words
            scores.masked_fill_(~self.grammar.allowed(symbols, words, limit - step), -math.inf)
        if self.unk_penalty:
            scores[:, :, self.unk] -= self.unk_penalty
        if step >= state.lowest_limit:  # some sentences may be at their limit: only the end is left
            full = limit.le(step)[:, None, None]
            other = torch.arange(scores.size(2), device=scores.device).ne(self.eos)
            scores.masked_fill_(full & other, -math.inf)
        forced: Tensor | None = None
        if prefix is not None and step < prefix.size(1):
            forced = prefix[:, step, None, None].expand(-1, scores.size(1), 1)
            forced_score = scores.gather(2, forced)
        if step < self.min_len:
            scores[:, :, self.eos] = -math.inf
        if self.token_indices_to_suppress is not None:
            scores[:, :, self.token_indices_to_suppress.to(scores.device)] = -math.inf
        if forced is not None:
            # A prefix goes before all but the limit.
            applies = forced.ne(self.pad) & limit.gt(step)[:, None, None]
            alone = torch.full_like(scores, -math.inf).scatter(2, forced, forced_score)
            scores.copy_(torch.where(applies, alone, scores))

    def _choose(self, state: State, log_p: Tensor, token: Tensor) -> None:
        """Finish what ends among the b best candidates, and extend the b best that go on.

        log_p, token: (sentences, b, n), the n best next tokens of each hypothesis.
        """
        now, b, n = state.open, self.beam_size, token.size(2)
        candidates = min(2 * b, n * token.size(1))
        total, index = (log_p + now.score[:, :, None]).flatten(1).topk(candidates, dim=1)
        token, parent = token.flatten(1).gather(1, index), index // n
        end = token.eq(self.eos)
        state.finished.take(now.sentence, total[:, :b], parent[:, :b], end[:, :b], state.step)
        # The first b that do not end, in their order. A tiny vocabulary may have fewer of them;
        # then some that end come last, at −∞.
        rank = end * candidates + torch.arange(candidates, device=end.device)
        order = rank.topk(b, largest=False).indices
        now.score = total.masked_fill(end, -math.inf).gather(1, order)
        now.parents = parent.gather(1, order)
        token = token.gather(1, order)
        past = now.parents[:, :, None].expand(-1, -1, now.tokens.size(2))
        now.tokens = torch.cat((now.tokens.gather(1, past), token[:, :, None]), dim=2)
        state.history.choices.append(Choices(now.sentence, token, now.parents, now.score))

    def _drop_done(self, state: State) -> bool:
        """Drop the sentences that are done if they are many; return whether any is not done."""
        now, finished = state.open, state.finished
        best, worst = now.score.amax(dim=1), finished.score[now.sentence, -1]
        done = now.limit.le(state.step) | best.eq(-math.inf)
        done |= self.rules.done(worst, best, finished.count[now.sentence], now.limit)
        remaining = closed_up(done)
        if 0 < len(remaining) <= (1 - DONE_SHARE) * len(done):
            now.select(remaining)
            for model in state.models:
                model.select(remaining)
        return len(remaining) > 0


def closed_up(done: Tensor) -> Tensor:
    """Return the rows that are not done, with the last ones in the gaps, so that few move.

    For example, with rows 1 and 3 of five done: 0, 4, 2.
    """
    rows = (~done).nonzero()[:, 0]
    count = len(rows)
    gaps = done[:count].nonzero()[:, 0]
    moved = rows[count - len(gaps) :]
    rows = torch.arange(count, device=done.device)
    return rows.index_copy_(0, gaps, moved)
