"""Small models for the tests."""

from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture

from aiayn_plugin.boundary.model import Transformer, TransformerConfig

PAD, EOS = 1, 2


def dictionary(words: int) -> Dictionary:
    made = Dictionary()
    for i in range(words - len(made)):
        made.add_symbol(f"w{i}")
    return made


def build(words=30, left_pad_target=False, **options) -> Transformer:
    """A small model in float64, always with the same weights."""
    options = {"N": 2, "d_model": 16, "d_ff": 24, "h": 4, **options}
    options = {"max_source_positions": 64, "max_target_positions": 64, **options}
    task = SimpleNamespace(
        source_dictionary=(d := dictionary(words)),
        target_dictionary=d,
        cfg=SimpleNamespace(left_pad_target=left_pad_target),
    )
    torch.manual_seed(1)
    return Transformer.build_model(TransformerConfig(**options), task).double()


def fairseq_model(words=30, **options):
    """A small Transformer of fairseq's in float32, always with the same weights, and its args."""
    args = SimpleNamespace(
        encoder_layers=2, decoder_layers=2, encoder_embed_dim=16, encoder_ffn_embed_dim=24,
        encoder_attention_heads=4, decoder_attention_heads=4, dropout=0.0,
        **{"share_all_embeddings": True, **options},
    )  # fmt: skip
    base_architecture(args)
    torch.manual_seed(3)
    task = SimpleNamespace(source_dictionary=(d := dictionary(words)), target_dictionary=d)
    model = TransformerModel.build_model(args, task)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    return model, args


def sentences(source_length=6, target_length=5, batch=2):
    """Source and shifted target tokens, without padding."""
    torch.manual_seed(2)
    source = torch.randint(4, 30, (batch, source_length))
    target = torch.randint(4, 30, (batch, target_length))
    source[:, -1] = EOS
    target[:, 0] = EOS  # fairseq's shifted target starts with the end symbol
    return source, target


def pad_left(tokens, n):
    return torch.cat((torch.full((tokens.size(0), n), PAD), tokens), dim=1)


def pad_right(tokens, n):
    return torch.cat((tokens, torch.full((tokens.size(0), n), PAD)), dim=1)
