"""§6.1: the paper's BLEU in fairseq's registry of scorers."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.scoring import BaseScorer, register_scorer

from ..errors import InputError
from ..text.scores import UNKNOWN, describe_paper_bleu, paper_bleu, sacrebleu_metric


@dataclass
class PaperBleuConfig(FairseqDataclass):
    paper_bleu_lang: Optional[str] = field(  # noqa: UP045  fairseq reads the type
        default=None,
        metadata={
            "help": "target language, whose Moses tokeniser is used; German compounds are split "
            "(default: the data's)"
        },
    )


@register_scorer("paper_bleu", dataclass=PaperBleuConfig)
class PaperBleuScorer(BaseScorer):
    """fairseq-generate --scoring paper_bleu. fairseq has no raw references; the result says so."""

    def __init__(self, cfg: PaperBleuConfig) -> None:
        super().__init__(cfg)
        if cfg.paper_bleu_lang is None:
            raise InputError("the target language is not known: give --paper-bleu-lang")
        sacrebleu_metric(cfg.paper_bleu_lang)  # fails now rather than after the translation

    def add_string(self, ref: str, pred: str) -> None:
        super().add_string(ref.replace("<<unk>>", UNKNOWN), pred)

    def score(self, order: int = 4) -> float:
        return paper_bleu(self.pred, self.ref, self.cfg.paper_bleu_lang)

    def result_string(self, order: int = 4) -> str:
        return describe_paper_bleu(self.pred, self.ref, self.cfg.paper_bleu_lang)
