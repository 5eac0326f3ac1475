"""§5.1: the task's batches, for training and for validation, and its errors."""

import pytest
from fairseq.data.iterators import GroupedIterator
from models import dictionary, trainer
from omegaconf import OmegaConf

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.task import AiaynTranslation, AiaynTranslationConfig

pytestmark = pytest.mark.usefixtures("quiet")


def test_a_training_with_bad_settings_ends_with_one_line():
    task = AiaynTranslation(AiaynTranslationConfig(), dictionary(10), dictionary(11))
    with pytest.raises(InputError, match="source and target dictionaries differ"):
        limits = {"max_source_positions": 64, "max_target_positions": 64}
        task.build_model(
            OmegaConf.create({"model": {"_name": "aiayn_transformer", **limits}}).model
        )


def test_validation_loses_no_sentence(corpus, tmp_path):
    """fairseq drops what is left over of batches of 8, and 1,014 mod 8 is 6."""
    training, _ = trainer(corpus, tmp_path, "--required-batch-size-multiple", "8")
    training.task.load_dataset("valid")
    batches = training.get_valid_iterator("valid").next_epoch_itr(shuffle=False)
    assert sum(batch["nsentences"] for batch in batches) == 1014


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_tokens_of_an_update_whatever_the_devices(corpus, tmp_path, devices):
    """The batches of all devices are grouped as fairseq's trainer groups them."""
    training, _ = trainer(corpus, tmp_path, "--tokens-per-update", "600", "--max-tokens", "300")
    task, updates, tokens, sentences = training.task, 0, 0, 0
    task.planned = None  # made for one device
    for device in range(devices):
        epoch = task.get_batch_iterator(
            task.dataset("train"),
            300,
            None,
            None,
            num_shards=devices,
            shard_id=device,
            seed=1,
            required_batch_size_multiple=1,
            disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=True)
        grouped = list(GroupedIterator(epoch, training.cfg.optimization.update_freq[0]))
        updates = len(grouped)
        for batch in (batch for group in grouped for batch in group if batch):
            assert batch["target"].numel() <= 300
            tokens += batch["ntokens"]
            sentences += batch["nsentences"]
    assert sentences == len(task.dataset("train"))
    assert tokens / updates == pytest.approx(600, rel=0.05)
