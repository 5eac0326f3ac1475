"""Training on a GPU, as far as a CPU can show it."""

import pytest
import torch
from models import build, sentences, trainer
from torch._dynamo.testing import CompileCounter

from aiayn_plugin.fairseq_plugin.gpu_training import GraphedTrainStep, pad_equally

pytestmark = pytest.mark.usefixtures("quiet")


def test_layers_compile_without_graph_breaks_once_for_all_lengths():
    model, counter = build(dropout=0.0).train(), CompileCounter()
    for stack in (model.encoder, model.decoder):
        for layer in stack.layers:
            layer.compile(backend=counter, dynamic=True, fullgraph=True)
    for source, target, batch in ((6, 5, 2), (9, 12, 3), (4, 4, 5), (30, 40, 2), (200, 200, 3)):
        tokens = sentences(source, target, batch)
        model(tokens[0], None, tokens[1])[0].sum().backward()
    assert counter.frame_count == 2  # an encoder layer and a decoder layer


@pytest.mark.parametrize(
    "sides, padded",
    [((8, 7), (8, 8)), ((16, 14), (16, 16)), ((8, 6), (8, 6)), ((17, 16), (17, 16))],
)
def test_sides_of_similar_length_are_padded_to_the_same_length(sides, padded):
    source, target = (torch.full((2, length), 5) for length in sides)
    outputs = pad_equally(source, target, target, max_length=16)
    assert [x.size(1) for x in outputs] == [padded[0], padded[1], padded[1]]
    for x, length in zip(outputs, (*sides, sides[1]), strict=True):
        assert (x[:, :length] == 5).all() and (x[:, length:] == 1).all()


def test_the_step_of_a_graph_equals_fairseqs(corpus, tmp_path):
    results = []
    for graphed in (False, True):
        training, epoch = trainer(
            corpus, tmp_path, "--dropout", "0", "--max-tokens", "500", "--tokens-per-update", "0"
        )
        sample, _ = training._prepare_sample(next(epoch.next_epoch_itr(shuffle=False)))
        task, arguments = training.task, (training.model, training.criterion, training.optimizer)
        assert GraphedTrainStep.can_replay(sample)
        if graphed:
            loss, size, log = GraphedTrainStep(task.train_step, *arguments)(sample)
        else:
            loss, size, log = task.train_step(sample, *arguments, 0)
        gradients = [weight.grad.clone() for weight in training.optimizer.params]
        numbers = {name: float(value) for name, value in log.items()}
        results.append((float(loss), size, gradients, numbers))
    (loss, size, gradients, log), (actual, actual_size, actual_gradients, actual_log) = results
    assert actual == pytest.approx(loss) and actual_size == size
    assert {**log, **actual_log} == pytest.approx(log) and actual_log.keys() <= log.keys()
    for gradient, expected in zip(actual_gradients, gradients, strict=True):
        torch.testing.assert_close(gradient, expected)


def test_batches_with_more_than_source_and_target_are_not_graphed():
    net_input = {"src_tokens": 0, "src_lengths": 0, "prev_output_tokens": 0}
    assert GraphedTrainStep.can_replay({"net_input": net_input})
    assert not GraphedTrainStep.can_replay({"net_input": {**net_input, "prefix": 0}})
