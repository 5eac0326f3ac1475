"""§3 The model with fairseq's interfaces."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from models import build, dictionary, pad_left, sentences
from omegaconf import OmegaConf

from aiayn_plugin.checkpoints.loading import model_settings
from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.model import AiaynTransformer, TransformerConfig
from aiayn_plugin.paper import ModelSettings


def test_settings_that_a_configuration_lacks_have_their_defaults():
    cfg = Namespace(N=2, d_model=16, h=4, positions="learned", max_source_positions=64)
    assert model_settings(cfg) == ModelSettings(N=2, d_model=16, h=4, positions="learned")


def test_choices_become_strings():
    """In a structured configuration, as hydra's, they are enums."""
    cfg = OmegaConf.structured(TransformerConfig(positions="learned"))
    assert str not in (type(cfg.positions), type(cfg.tie_embeddings))
    known = model_settings(cfg)
    assert (type(known.positions), type(known.tie_embeddings)) == (str, str)
    assert known == ModelSettings(positions="learned")


def test_reordering_moves_sentences_with_their_state():
    model = build().eval()
    source, target = sentences()
    order = torch.tensor([1, 0, 1])
    memory, state = model.encoder(source), {}
    model.decoder(target[:, :1], memory, incremental_state=state)
    model.decoder.reorder_incremental_state_scripting(state, order)
    memory = model.encoder.reorder_encoder_out(memory, order)
    found, _ = model.decoder(target[order, :2], memory, incremental_state=state)
    expected, _ = model(source[order], None, target[order, :2])
    torch.testing.assert_close(found[:, 0], expected[:, 1], rtol=0, atol=1e-12)


def test_the_mode_reaches_modules_that_were_set_differently():
    model = build(dropout=0.1).train()
    model.encoder.layers[0].eval()
    assert all(module.training for module in model.train().modules())
    assert not any(module.training for module in model.eval().modules())


def test_learned_positions_limit_the_length():
    model = build(positions="learned", max_source_positions=8, max_target_positions=7)
    assert model.max_positions() == (8, 7)
    source, target = sentences(8, 7)
    model(pad_left(source, 3), None, target)  # padding takes no position
    with pytest.raises(InputError, match="learned 8 positions, but the input has 9"):
        model(torch.cat((source, source[:, :1]), dim=1), None, target)
    with pytest.raises(InputError, match="learned 7 positions"):
        model(source, None, torch.cat((target, target[:, :1]), dim=1))


def test_sinusoids_have_no_limit():
    source, target = sentences(1500, 3)
    model = build()
    assert min(model.max_positions()) >= 100_000
    assert model(source, None, target)[0].isfinite().all()


def test_user_modules_receive_the_update_number():
    class Annealed(torch.nn.Linear):
        updates = 0

        def set_num_updates(self, number):
            self.updates = number

    model = build()
    model.encoder.layers[0].feed_forward.W_1 = Annealed(16, 24)
    for update in (1, 2):
        model.set_num_updates(update)
        assert model.encoder.layers[0].feed_forward.W_1.updates == update


def test_different_dictionaries_are_refused():
    target = dictionary(9)
    target.add_symbol("different")
    task = SimpleNamespace(source_dictionary=dictionary(10), target_dictionary=target)
    with pytest.raises(
        InputError, match="source and target dictionaries differ.*joined dictionary"
    ):
        AiaynTransformer.build_model(TransformerConfig(), task)
