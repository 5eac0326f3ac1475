"""§6.1 Beam search, under the rules of the paper or of fairseq, behind the interface of fairseq's
SequenceGenerator."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import torch
from fairseq import utils
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from .errors import SettingError
from .loss import PIECE
from .rules import FairseqRules, PaperRules
from .stepwise import AnyModel, OurModel
from .transformer import Transformer

#: Sentences that are done leave their batch together when they are so much of it: each time, the
#: caches of the others are copied. Until then their hypotheses go on, which changes nothing.
DROP = 1 / 8

#: On a CPU a batch is searched in parts, each in a thread of its own, of at least so many
#: sentences. The many small operations of a step gain little from a second thread inside them; a
#: part of fewer sentences would read all weights for little.
PART = 32


@dataclass
class Open:
    """The open hypotheses of the sentences that are not done yet, b of each."""

    sentence: Tensor  #: (sentences,) its number in the batch
    limit: Tensor  #: (sentences,)
    tokens: Tensor  #: (sentences, b, length), what the models have to read
    score: Tensor  #: (sentences, b) log P, −inf for what is no hypothesis
    prefix: Tensor | None  #: (sentences, prefix length) forced tokens, or padding
    parents: Tensor | None = None  #: (sentences, b) the hypothesis of the step before

    def part(self, some: slice) -> "Open":
        """Some of the sentences."""
        parts = {name: x[some] for name, x in vars(self).items() if x is not None}
        return replace(self, **parts)

    def keep(self, which: Tensor) -> None:
        """Drop all sentences but these."""
        for name, value in vars(self).items():
            if value is not None:
                setattr(self, name, value.index_select(0, which))


@dataclass
class Steps:
    """What was chosen at each step, from which a finished hypothesis is read backwards."""

    chosen: list[tuple[Tensor, ...]] = field(default_factory=list)
    attention: list[tuple[Tensor, Tensor]] = field(default_factory=list)


class BeamSearch(SequenceGenerator):
    """fairseq's generator with the rules of the paper or of fairseq.

    As SequenceGenerator's, each sentence's hypotheses come best first, as dictionaries of
    "tokens" (with the end symbol), "score" (log P over the penalty), "positional_scores",
    "attention" (source × target, empty unless asked for) and "alignment"; all on the CPU.
    An end symbol finishes a hypothesis where it is among the b best candidates of a sentence.
    """

    def __init__(self, models, tgt_dict, *, rules, alignment: str | None = None, **kwargs) -> None:
        """rules: PaperRules or FairseqRules. alignment: "hard" or "soft" to have attention and
        alignments too. The other arguments are SequenceGenerator's."""
        super().__init__(models, tgt_dict, **kwargs)
        self.rules, self.alignment = rules, alignment

    def _generate(self, sample, prefix_tokens=None, constraints=None, bos_token=None):
        if constraints is not None:
            raise SettingError("constraints need fairseq's search: give --task translation")
        batch = {name: sample["net_input"][name] for name in ("src_tokens", "src_lengths")}
        if prefix_tokens is not None:
            batch["prefix"] = prefix_tokens
        source, threads = batch["src_tokens"], torch.get_num_threads()
        n = min(threads, len(source) // PART) if self._separable(source.device) else 1
        if n < 2:
            hypotheses = self._search(batch, bos_token)
        else:
            # every n-th sentence, because a batch is sorted by length
            parts = [{name: x[i::n] for name, x in batch.items()} for i in range(n)]
            try:
                with ThreadPoolExecutor(
                    n, initializer=torch.set_num_threads, initargs=(threads // n,)
                ) as pool:
                    found = list(pool.map(lambda part: self._search(part, bos_token), parts))
            finally:
                torch.set_num_threads(threads)  # for threads that others start
            hypotheses = [found[i % n][i // n] for i in range(len(source))]
        if [] in hypotheses:
            number = hypotheses.index([])
            raise SettingError(f"no hypothesis for sentence {number} of a batch: the scores of the "
                               "model are not numbers (try float32), or all tokens are forbidden")
        if self.alignment:
            self._align(hypotheses, source)
        return hypotheses

    def _separable(self, device: torch.device) -> bool:
        """Whether parts of a batch may be searched at once: fairseq's models do not promise it."""
        ours = all(isinstance(model, Transformer) for model in self.model.models)
        return device.type == "cpu" and ours and self.lm_model is None

    @torch.no_grad()
    def _search(self, batch: dict[str, Tensor], bos_token: int | None) -> list[list[dict]]:
        """The hypotheses of each sentence, or [] where there are none."""
        source, prefix = batch["src_tokens"], batch.get("prefix")
        models = [(OurModel if isinstance(m, Transformer) else AnyModel)(m, batch)
                  for m in self.model.models]
        lengths = (source.ne(self.pad) & source.ne(self.eos)).sum(dim=1)
        limits = self.rules.limits(lengths, source.size(1)).clamp(max=self.max_len - 1)
        shortest, longest = (int(limits.min()), int(limits.max())) if len(limits) else (0, -1)
        if shortest < self.min_len and len(limits):
            raise SettingError(f"--min-len {self.min_len} is more than the limit of {shortest} "
                               "tokens: lower it, or raise --max-len-b")
        first = torch.full_like(source[:, :1, None], self.eos if bos_token is None else bos_token)
        dtype = torch.promote_types(next(self.model.parameters()).dtype, torch.float32)
        zero = torch.zeros(len(source), 1, dtype=dtype, device=source.device)
        now = Open(torch.arange(len(source), device=source.device), limits, first, zero, prefix)
        finished = Finished(len(source), self.rules, zero)
        steps = Steps()
        for step in range(longest + 1):
            features = self._advance(models, now, steps)
            best = []
            for some in self._pieces(now):
                scores = self._scores(models, [x[some] for x in features], now.part(some), step,
                                      shortest)
                best.append(scores.topk(min(2 * self.beam_size, scores.size(2)), dim=2))
            total, token = (torch.cat(x) for x in zip(*best, strict=True))
            self._choose(total, token, now, finished, steps, step)
            if not self._drop_done(now, finished, models, step):
                break
        return finished.read(steps, self.eos)

    def _advance(self, models: list, now: Open, steps: Steps) -> list[Tensor]:
        """Each model's features of the next token, (sentences, b, …)."""
        features, weights = [], []
        for model in models:
            found, attention = model.step(now.tokens, now.parents, self.alignment is not None)
            features.append(found)
            if attention is not None:
                weights.append(attention)
        if self.alignment and weights:
            steps.attention.append((now.sentence, torch.stack(weights).mean(dim=0)))
        return features

    def _pieces(self, now: Open) -> list[slice]:
        """Sentences whose scores are computed at once: those of all would not stay in the cache of
        a CPU."""
        device, (sentences, b) = now.score.device.type, now.score.shape
        rows = max(1, PIECE.get(device, PIECE["cpu"]) // (b * self.vocab_size))
        return [slice(start, start + rows) for start in range(0, sentences, rows)]

    def _scores(
        self, models: list, features: list[Tensor], now: Open, step: int, shortest: int
    ) -> Tensor:
        """(sentences, b, V): log P of the next token, the mean of all models, or −∞ where it may
        not come next."""
        found = [model.log_probabilities(x, self.temperature)
                 for model, x in zip(models, features, strict=True)]
        scores = found[0]
        if len(found) > 1:
            scores = torch.stack(found).logsumexp(dim=0) - math.log(len(found))
        if self.lm_model is not None:
            out = self.lm_model(now.tokens.flatten(0, 1))
            lm = self.lm_model.get_normalized_probs(out, log_probs=True, sample=None)[:, -1]
            scores = scores + self.lm_weight * lm.unflatten(0, now.score.shape)
        self._forbid(scores, now, step, shortest)
        return scores

    def _forbid(self, scores: Tensor, now: Open, step: int, shortest: int) -> None:
        """Take away, in place, what may not come next."""
        scores[:, :, self.pad] = -math.inf
        if self.unk_penalty:
            scores[:, :, self.unk] -= self.unk_penalty
        if step >= shortest:
            full = now.limit.le(step)[:, None, None]
            other = torch.arange(scores.size(2), device=scores.device).ne(self.eos)
            scores.masked_fill_(full & other, -math.inf)
        given: tuple[Tensor, Tensor] | None = None  # forced tokens, and their scores
        if now.prefix is not None and step < now.prefix.size(1):
            forced = now.prefix[:, step, None, None].expand(-1, scores.size(1), 1)
            given = forced, scores.gather(2, forced)
        if step < self.min_len:
            scores[:, :, self.eos] = -math.inf
        if self.token_indices_to_suppress is not None:
            scores[:, :, self.token_indices_to_suppress.to(scores.device)] = -math.inf
        if given is not None:
            forced, log_p = given
            # where the limit is reached, the end comes first
            goes_on = forced.ne(self.pad) & now.limit.gt(step)[:, None, None]
            only = torch.full_like(scores, -math.inf).scatter(2, forced, log_p)
            scores.copy_(torch.where(goes_on, only, scores))
        if self.repeat_ngram_blocker is not None:
            rows = now.tokens.flatten(0, 1), scores.flatten(0, 1)
            scores.copy_(self.repeat_ngram_blocker(*rows, *now.score.shape, step).view_as(scores))

    def _choose(
        self, log_p: Tensor, token: Tensor, now: Open, finished: "Finished", steps: Steps, step: int
    ) -> None:
        """Finish what ends, and extend the best of the rest.

        log_p, token: (sentences, b, n), the n best next tokens of each hypothesis.
        """
        b, each = self.beam_size, token.size(2)
        wide = min(2 * b, each * token.size(1))
        total, index = (log_p + now.score[:, :, None]).flatten(1).topk(wide, dim=1)
        token, parent = token.flatten(1).gather(1, index), index // each
        end = token.eq(self.eos)
        finished.take(now.sentence, total[:, :b], parent[:, :b], end[:, :b], step)
        # the first b that do not end, in their order; with a tiny vocabulary there may be fewer
        order = (end * wide + torch.arange(wide, device=end.device)).topk(b, largest=False).indices
        now.score = total.masked_fill(end, -math.inf).gather(1, order)
        now.parents = parent.gather(1, order)
        token = token.gather(1, order)
        past = now.parents[:, :, None].expand(-1, -1, now.tokens.size(2))
        now.tokens = torch.cat((now.tokens.gather(1, past), token[:, :, None]), dim=2)
        steps.chosen.append((now.sentence, token, now.parents, now.score))

    def _drop_done(self, now: Open, finished: "Finished", models: list, step: int) -> bool:
        """Leave only the sentences whose search goes on; whether there are any."""
        best = now.score.amax(dim=1)
        worst, count = finished.score[now.sentence, -1], finished.count[now.sentence]
        done = now.limit.le(step) | best.eq(-math.inf)
        done |= self.rules.done(worst, best, count, now.limit)
        still = (~done).nonzero()[:, 0]
        if 0 < len(still) <= (1 - DROP) * len(done):
            now.keep(still)
            for model in models:
                model.keep(still)
        return len(still) > 0

    def _align(self, hypotheses: list[list[dict]], source: Tensor) -> None:
        extract = {"hard": utils.extract_hard_alignment, "soft": utils.extract_soft_alignment}
        for tokens, found in zip(source.cpu(), hypotheses, strict=True):
            for hypothesis in found:
                hypothesis["alignment"] = extract[str(self.alignment)](
                    hypothesis["attention"].t(), tokens, hypothesis["tokens"], self.pad, self.eos
                )


class Finished:
    """The best finished hypotheses of each sentence of a batch, best first."""

    def __init__(self, sentences: int, rules: PaperRules | FairseqRules, like: Tensor) -> None:
        self.rules = rules
        shape = (sentences, rules.kept)
        self.score = like.new_full(shape, -math.inf)  # log P over the penalty
        self.total = like.new_zeros(shape)  # log P
        self.parent = torch.zeros(shape, dtype=torch.long, device=like.device)
        self.step = torch.zeros_like(self.parent)
        self.count = self.parent.new_zeros(sentences)

    def take(self, sentence: Tensor, total: Tensor, parent: Tensor, end: Tensor, step: int) -> None:
        """Take in the candidates (sentences, b) that end at this step, where they are good enough.

        sentence: (sentences,), their numbers in the batch; parent: (sentences, b), the hypotheses
        that they continue.
        """
        ended = self.rules.accepted(end & total.gt(-math.inf), self.count[sentence])
        score = (total / self.rules.penalty(step + 1)).masked_fill(~ended, -math.inf)
        self.count[sentence] += ended.sum(dim=1)
        kept = torch.cat((self.score[sentence], score), dim=1).topk(self.rules.kept, dim=1)
        self.score[sentence] = kept.values
        new = {"total": total, "parent": parent, "step": torch.full_like(parent, step)}
        for name, value in new.items():
            whole = getattr(self, name)
            both = torch.cat((whole[sentence], value), dim=1)
            whole[sentence] = both.gather(1, kept.indices)

    def read(self, steps: Steps, eos: int) -> list[list[dict]]:
        """The hypotheses of each sentence, read backwards from their ends."""
        parent, end = self.parent, self.step
        length = int(end.max()) + 1 if end.numel() else 0
        tokens = parent.new_full((*end.shape, length), eos)
        totals = self.total[:, :, None].repeat(1, 1, length)
        attention: list[Tensor] = []
        for t in reversed(range(length)):
            if steps.attention:
                attention.append(_whole(*steps.attention[t], len(end), parent))
            if t == 0:
                break
            number, *chosen = steps.chosen[t - 1]
            token, before, log_p = (_whole(number, x, len(end), parent) for x in chosen)
            open_ = end >= t
            tokens[:, :, t - 1] = torch.where(open_, token, eos)
            totals[:, :, t - 1] = torch.where(open_, log_p, totals[:, :, t - 1])
            parent = torch.where(open_, before, parent)
        weights = torch.stack(attention[::-1], dim=-1).cpu() if attention else None
        # until here nothing has left the device
        score, end, tokens, totals = (x.cpu() for x in (self.score, end, tokens, totals))
        positional = totals.diff(dim=2, prepend=torch.zeros_like(totals[:, :, :1]))
        return [
            [
                {
                    "tokens": tokens[i, j, : end[i, j] + 1],
                    "score": score[i, j],
                    "attention": weights[i, j, :, : end[i, j] + 1] if weights is not None
                    else torch.empty(0),
                    "alignment": torch.empty(0),
                    "positional_scores": positional[i, j, : end[i, j] + 1],
                }
                for j in score[i].sort(descending=True, stable=True).indices
                if score[i, j] > -math.inf
            ]
            for i in range(len(end))
        ]


def _whole(number: Tensor, values: Tensor, sentences: int, parent: Tensor) -> Tensor:
    """Of values (some sentences, b, …) those of the hypotheses `parent` (sentences, kept)."""
    whole = values.new_zeros(sentences, *values.shape[1:])
    whole[number] = values
    index = parent.clamp(max=values.size(1) - 1)
    index = index.view(*index.shape, *[1] * (values.dim() - 2))
    return whole.gather(1, index.expand(*parent.shape, *values.shape[2:]))
