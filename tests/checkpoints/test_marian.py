"""Our model as transformers' MarianMTModel, and back: the same function."""

import json
import math

import pytest
import torch
from models import PAD, pad_right, sentences
from safetensors.torch import load_file, save_file

from aiayn_plugin.checkpoints.marian import build_config, build_weights, read_marian
from aiayn_plugin.errors import InputError
from aiayn_plugin.model import Transformer
from aiayn_plugin.paper import ModelSettings

WORDS, POSITIONS = 30, 12
SIZES = {"N": 2, "d_model": 32, "d_ff": 48, "h": 4}
VARIANTS = [
    {},
    {"h": 1},  # Table 3, rows A to E
    {"h": 16},
    {"d_k": 2},
    {"d_k": 3, "d_v": 5},
    {"N": 3, "d_ff": 16},
    {"positions": "learned"},
    {"positions": "fairseq"},
    {"attention_bias": True, "d_k": 4},
    {"tie_embeddings": "target"},
    {"tie_embeddings": "none"},
]


def model(settings):
    """Return a model with random weights, including biases and norms."""
    torch.manual_seed(1)
    built = Transformer(settings, WORDS, WORDS, (POSITIONS, POSITIONS)).eval()
    for parameter in built.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, std=0.5)
    return built


def write(directory, settings, model_ids=()):
    """Write a MarianMTModel, and return our model."""
    ours = model(settings)
    weights = build_weights(ours, settings, model_ids)
    positions = len(weights["model.encoder.embed_positions.weight"])
    config = build_config(settings, WORDS + len(model_ids), positions)
    (directory / "config.json").write_text(json.dumps(config))
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    return ours


@torch.no_grad()
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_conversion_to_transformers_and_back_keeps_the_function(transformers, tmp_path, changes):
    settings = ModelSettings(**{**SIZES, **changes})
    ours = write(tmp_path, settings, model_ids=[3, 5])
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    assert type(theirs) is transformers.MarianMTModel
    source, target = sentences(9, 7)
    source[1] = pad_right(source[1:, -6:], 3)
    expected = ours(source, target)
    inputs = {"attention_mask": source.ne(PAD).long(), "decoder_input_ids": target}
    actual = theirs(input_ids=source, **inputs).logits
    torch.testing.assert_close(actual[..., :WORDS], expected, rtol=0, atol=1e-4)
    assert actual[..., WORDS:].eq(-math.inf).all()
    twin = theirs(input_ids=source.masked_fill(source.eq(5), WORDS + 1), **inputs).logits
    torch.testing.assert_close(twin, actual)

    theirs.save_pretrained(tmp_path / "saved")
    has_table = settings.positions != "sinusoids"
    if has_table:  # transformers leaves it out
        with pytest.raises(InputError, match="table of positions is missing"):
            read_marian(tmp_path / "saved", WORDS)
    again, length, weights = read_marian(tmp_path if has_table else tmp_path / "saved", WORDS)
    back = Transformer(again, WORDS, WORDS, (length, length)).eval()
    back.load_state_dict(weights)
    torch.testing.assert_close(back(source, target), expected, rtol=0, atol=1e-4)
    assert again.positions == settings.positions
    assert again.attention_bias == settings.attention_bias
    assert again.tie_embeddings == settings.tie_embeddings


@torch.no_grad()
@pytest.mark.parametrize("share", [True, False])
def test_a_new_marian_model_is_converted(transformers, tmp_path, share):
    config = transformers.MarianConfig(
        **{f"{stack}_layers": 2 for stack in ("encoder", "decoder")},
        **{f"{stack}_attention_heads": 4 for stack in ("encoder", "decoder")},
        **{f"{stack}_ffn_dim": 24 for stack in ("encoder", "decoder")},
        vocab_size=WORDS,
        d_model=16,
        init_std=0.3,
        max_position_embeddings=64,
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=share,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
    )
    torch.manual_seed(0)
    theirs = transformers.MarianMTModel(config).eval()
    for parameter in theirs.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter)
    theirs.save_pretrained(tmp_path)
    settings, length, weights = read_marian(tmp_path, WORDS)
    ours = Transformer(settings, WORDS, WORDS, (length, length)).eval()
    ours.load_state_dict(weights)
    source, target = sentences(9, 7)
    expected = theirs(input_ids=source, decoder_input_ids=target).logits
    torch.testing.assert_close(ours(source, target), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"neighbourhood": 3}, "restricted to a neighbourhood"),
        ({"d_k": 9}, "no d_k or d_v above it; the model has 32 / 4, d_k 9 and d_v 8"),
        ({"h": 3, "d_k": 2, "d_v": 2}, "an integer d_model / h"),
    ],
)
def test_settings_unknown_to_marian_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        build_config(ModelSettings(**{**SIZES, **changes}), WORDS, POSITIONS)


def set_config(**changes):
    """Return a function that changes the configuration of a directory; None removes."""

    def change(directory):
        path = directory / "config.json"
        config = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))

    return change


def set_weights(change):
    """Return a function that changes the weights of a directory."""

    def change_file(directory):
        path = directory / "model.safetensors"
        weights = load_file(path)
        change(weights)
        save_file(weights, path)

    return change_file


@pytest.mark.parametrize(
    "spoil, message",
    [
        (
            set_config(activation_function="swish", decoder_start_token_id=29),
            "activation_function is 'swish', decoder_start_token_id is 29, not 'relu', 2",
        ),
        (set_config(decoder_layers=3), "decoder_layers is 3, not 2"),
        (set_config(model_type="bart"), "its model_type is 'bart'"),
        (set_config(tie_word_embeddings=False), "cannot share embeddings without"),
        (set_config(d_model=10**12), "d_model is 1000000000000, and embeddings have 32"),
        (
            set_config(encoder_layers=10**12, decoder_layers=10**12),
            "layers.2.fc1.weight' is missing",
        ),
        (
            set_config(encoder_ffn_dim=10**12, decoder_ffn_dim=10**12),
            "a different architecture",
        ),
        (set_config(d_model="x"), "not an intact MarianMTModel"),
        (set_config(encoder_layers=None), "'encoder_layers' is missing"),
        (lambda folder: (folder / "config.json").write_text("[" * 9999), "not an intact"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\xff" * 99), "damaged"),
        (set_weights(lambda w: w["final_logits_bias"].fill_(0.1)), "final_logits_bias is not 0"),
        (
            set_weights(lambda w: w.update(final_logits_bias=torch.zeros(1, 31))),
            "vocabulary of 31 tokens, but the dictionary has 30",
        ),
        (set_weights(lambda w: w.update(extra=torch.zeros(1))), "has no weight extra"),
        (
            set_weights(lambda w: w.update({"model.encoder.layers.0.fc1.bias": torch.zeros(9)})),
            "fc1|feed_forward",
        ),
    ],
)
def test_unsupported_marian_models_are_refused(tmp_path, spoil, message):
    write(tmp_path, ModelSettings(**SIZES))
    assert read_marian(tmp_path, WORDS)[0].d_model == 32
    spoil(tmp_path)
    with pytest.raises(InputError, match=message) as error:
        read_marian(tmp_path, WORDS)
    assert "\n" not in str(error.value)
