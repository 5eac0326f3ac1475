"""The mend of fairseq's layers."""

import torch
from models import fairseq_model, pad_right, sentences


def test_fairseqs_own_model_computes_the_same_after_loading():
    model, _ = fairseq_model()
    model.eval()
    source, target = sentences()
    source = pad_right(source, 2)
    lengths = source.ne(1).sum(1)
    before = model(source, lengths, target)[0]
    again, _ = fairseq_model()
    again.load_state_dict(model.state_dict())
    again.eval()
    torch.testing.assert_close(again(source, lengths, target)[0], before)
