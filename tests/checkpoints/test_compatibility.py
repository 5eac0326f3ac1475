"""A checkpoint of another model is refused in one line, and old ones load."""

import pytest
import torch
from models import build

from aiayn_plugin.checkpoints.compatibility import settings_without_shape
from aiayn_plugin.checkpoints.safe_load import BUFFER, OLD_BUFFER
from aiayn_plugin.errors import InputError
from aiayn_plugin.paper import ModelSettings


@pytest.mark.parametrize(
    "settings, numbers",
    [
        ({}, [8, 0, 0]),
        ({"h": 4, "neighbourhood": 3, "positions": "fairseq"}, [4, 3, 2]),
    ],
)
def test_settings_without_a_shape_are_kept_as_numbers(settings, numbers):
    assert settings_without_shape(ModelSettings(**settings)).tolist() == numbers


@pytest.mark.parametrize(
    "trained, other, message",
    [
        ({"h": 4}, {"h": 2}, "h is 4 in it and 2 here"),
        ({}, {"neighbourhood": 3}, "neighbourhood is None in it and 3 here"),
        ({"positions": "fairseq"}, {}, "positions is fairseq in it and sinusoids here"),
        ({"d_ff": 24}, {"d_ff": 32}, "W_1.bias is .24,. in it and .32,. here"),
        ({"words": 30}, {"words": 31}, "dictionary of 30 entries, the data one of 31"),
    ],
)
def test_weights_of_another_architecture_are_refused(trained, other, message):
    with pytest.raises(InputError, match=message):
        build(**other).load_state_dict(build(**trained).state_dict())


def test_a_refusal_is_one_line_that_says_what_to_do():
    with pytest.raises(InputError) as error:
        build(h=2).load_state_dict(build(h=4).state_dict())
    assert str(error.value) == (
        "the checkpoint holds another architecture: h is 4 in it and 2 here; give the --arch and "
        "the options that it was trained with, or another --save-dir"
    )


def test_a_weight_that_is_missing_is_named():
    weights = build().state_dict()
    del weights["decoder.layers.1.feed_forward.W_2.bias"]
    with pytest.raises(InputError, match=r"W_2.bias is missing in it and \(16,\) here"):
        build().load_state_dict(weights)


def zeroed_model():
    """Return a model of `build` whose weights are all zero."""
    model = build()
    for weight in model.parameters():
        torch.nn.init.zeros_(weight)
    return model


def test_weights_from_before_a_checkpoint_said_its_architecture_load():
    model = build()
    old = {name: weight for name, weight in model.state_dict().items() if name != BUFFER}
    loaded = zeroed_model()
    loaded.load_state_dict(old)
    assert all(torch.equal(weight, old[name]) for name, weight in loaded.named_parameters())


def test_the_settings_of_version_0_1_0_have_another_name():
    weights = build(h=4).state_dict()
    weights[OLD_BUFFER] = weights.pop(BUFFER)
    assert OLD_BUFFER == "shapeless"
    loaded = zeroed_model()
    loaded.load_state_dict(weights)
    assert all(torch.equal(weight, weights[name]) for name, weight in loaded.named_parameters())
    with pytest.raises(InputError, match="h is 4 in it and 2 here"):
        build(h=2).load_state_dict(weights)
