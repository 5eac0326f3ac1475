"""A checkpoint of a different model or of different dictionaries is refused in one line."""

import pytest
from models import build

from aiayn_plugin.checkpoints.compatibility import Identity
from aiayn_plugin.checkpoints.loading import build_model
from aiayn_plugin.errors import InputError
from aiayn_plugin.model.transformer import Transformer
from aiayn_plugin.paper import ModelSettings

WORDS = ["a", "b"], ["c", "d"]


@pytest.mark.parametrize(
    "trained, other, message",
    [
        ({"d_ff": 24}, {"d_ff": 32}, "W_1.bias is .24,., not .32,."),
        ({"positions": "learned"}, {}, "positions.weight is .64, 16., not missing"),
        ({"words": 30}, {"words": 31}, "dictionary has 30 entries, the data's has 31"),
    ],
)
def test_weights_of_a_different_architecture_are_refused(trained, other, message):
    with pytest.raises(InputError, match=message):
        build(**other).load_state_dict(build(**trained).state_dict())


def test_a_missing_weight_is_named():
    weights = build().state_dict()
    del weights["decoder.layers.1.feed_forward.W_2.bias"]
    with pytest.raises(InputError, match=r"W_2.bias is missing, not \(16,\)"):
        build().load_state_dict(weights)


def test_both_sides_may_have_different_numbers_of_learned_positions():
    settings = ModelSettings(N=1, d_model=8, d_ff=8, h=2, positions="learned")
    sizes = (10, 10), (16, 512)
    weights = Transformer(settings, *sizes[0], sizes[1]).state_dict()
    assert build_model(settings, weights, *sizes).decoder.positions.max_positions == 512


@pytest.mark.parametrize("setting", [{"h": 4}, {"neighbourhood": 3}, {"positions": "fairseq"}])
def test_settings_that_no_shape_reveals_are_compared(setting):
    stored = Identity.of(WORDS, ModelSettings()).task_state()
    trained = Identity.read(stored)
    trained.check_settings(Identity.of(WORDS, ModelSettings()))
    ((name, value),) = setting.items()
    message = f"{name} is {getattr(ModelSettings(), name)}, not {value}; give the --arch"
    with pytest.raises(InputError, match=f"{message} .* or a different --save-dir$"):
        trained.check_settings(Identity.of(WORDS, ModelSettings(**setting)))


@pytest.mark.parametrize("side, name", enumerate(["dict.en.txt", "dict.de.txt"]))
def test_each_dictionary_is_compared(side, name):
    trained, names = Identity.of(WORDS), ["dict.en.txt", "dict.de.txt"]
    trained.check_dictionaries(Identity.of(WORDS), "data", names)
    words = list(WORDS)
    words[side] = words[side][::-1]
    with pytest.raises(InputError, match=f"^data/{name} .*: token IDs differ. Use the data"):
        trained.check_dictionaries(Identity.of(words), "data", names)


def test_data_of_the_reverse_direction_are_refused():
    names = ["dict.en.txt", "dict.de.txt"]
    shared = WORDS[0], WORDS[0]
    trained = Identity.read(Identity.of(shared, languages=("en", "de")).task_state())
    for languages in ((), ("en", "de"), ("eng", "deu")):
        trained.check_dictionaries(Identity.of(shared, languages=languages), "data", names)
    message = "data is for the direction de to en, but the checkpoint was trained from en to de"
    with pytest.raises(InputError, match=message):
        trained.check_dictionaries(Identity.of(shared, languages=("de", "en")), "data", names)


def test_unrecorded_fields_are_not_compared():
    unknown = Identity.read({"something": 1})
    model = Identity.of(WORDS, ModelSettings())
    unknown.check_settings(model)
    unknown.check_dictionaries(model, "data", ["dict.en.txt", "dict.de.txt"])
