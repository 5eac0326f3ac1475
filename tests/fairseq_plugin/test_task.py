"""§5.1: the task's batches in training and validation, also with sharded data, and its errors."""

import itertools
import json
import multiprocessing
import re
import shutil
from argparse import Namespace

import numpy as np
import pytest
from commands import TRAIN
from fairseq.data import indexed_dataset
from fairseq.data.iterators import GroupedIterator
from models import trainer

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.raw_text import load_pipeline
from aiayn_plugin.text.manifest import MANIFEST
from aiayn_plugin.text.pipeline import TextPipeline

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize(
    "options, message",
    [
        ("--best-checkpoint-metric nll_los", "nll_los is unknown: choose from loss, nll_loss, ppl"),
        ("--continue-once absent.pt", "--continue-once absent.pt is missing"),
        ("--restore-file absent.pt", "--restore-file absent.pt is missing"),
        (
            "--criterion cross_entropy --best-checkpoint-metric nll_loss",
            "nll_loss is unknown: choose from loss, ppl",
        ),
        ("--combine-valid-subsets --valid-subset valid,valid1", "omit --valid-subset"),
        ("--valid-subset valid,train", "--valid-subset valid,train includes the training set"),
        ('--eval-bleu --eval-bleu-args {"beams":4}', "beams is not an option of the search"),
        ("--eval-bleu --eval-bleu-args {} --eval-bleu-detok none", "none is unknown: choose from"),
        ("--keep-interval-updates-pattern 0", "--keep-interval-updates-pattern 0: give the"),
        ("--int8 --eval-bleu --eval-bleu-args {}", "--int8 is for translation"),
        ("--fp16", "--fp16 needs a GPU, but this run is on a CPU"),
        *(
            (f"--memory-efficient-{precision} --fp16-no-flatten-grads", "keeps weights in float32")
            for precision in ("fp16", "bf16")
        ),
        ("--tokens-per-update 600 --max-tokens 1", "every training sentence exceeds --max-tokens"),
        pytest.param(
            "--num-batch-buckets 4",
            "--num-batch-buckets fails in fairseq with numpy 2: omit it",
            marks=pytest.mark.skipif(hasattr(np, "compat"), reason="numpy 1"),
        ),
    ],
)
def test_options_that_would_fail_later_end_a_run_at_its_start(corpus, tmp_path, options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        training, _ = trainer(corpus, tmp_path, *options.split())
        training.optimizer  # noqa: B018  fairseq builds it when it is first used


def test_validation_drops_no_sentence(corpus, tmp_path):
    """fairseq drops the remainder of batches of 8, and 214 mod 8 is 6."""
    training, _ = trainer(corpus, tmp_path, "--required-batch-size-multiple", "8")
    training.task.load_dataset("valid")
    with pytest.raises(InputError, match=r"--max-tokens-valid\) 2 is below the longest sentence"):
        training.task.get_batch_iterator(training.task.dataset("valid"), max_tokens=2)
    batches = training.get_valid_iterator("valid").next_epoch_itr(shuffle=False)
    assert sum(batch["nsentences"] for batch in batches) == 214
    # with several processes, fairseq-validate adds empty batches
    assert training.task.valid_step({}, training.model, training.criterion) == (0.0, 0, {})


def test_an_update_has_the_same_tokens_on_any_number_of_devices(corpus, tmp_path):
    """The batches of all devices are grouped as fairseq's trainer groups them."""
    training, _ = trainer(corpus, tmp_path, "--tokens-per-update", "600", "--max-tokens", "300")
    task = training.task
    for devices in (1, 2, 8):
        updates = tokens = sentences = 0
        for device in range(devices):
            epoch = task.get_batch_iterator(
                task.dataset("train"),
                max_tokens=300,
                max_positions=(1024, 1024),
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


@pytest.fixture
def second_shard(corpus, tmp_path):
    """Half of the training set, its targets cut to one token and the end symbol.

    Few of a batch's tokens are target tokens, so an update takes many more batches.
    """
    shard = shutil.copytree(corpus, tmp_path / "second")
    (shard / MANIFEST).unlink()
    for lang in ("en", "de"):
        prefix = shard / f"train.en-de.{lang}"
        sentences = indexed_dataset.make_dataset(str(corpus / prefix.name), "mmap")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", 1000)
        for index in range(len(sentences) // 2):
            sentence = sentences[index]
            builder.add_item(sentence if lang == "en" else sentence[[0, -1]])
        builder.finalize(f"{prefix}.idx")
    return shard


def test_raw_text_is_in_the_direction_of_the_task(corpus):
    task = Namespace(data=str(corpus), source_lang="de", target_lang="en")
    assert load_pipeline(task).settings.languages == ("de", "en")


@pytest.mark.parametrize("flags", [[], ["--eval-tokenized-bleu"]])
def test_bleu_of_tokens_is_not_that_of_raw_text(corpus, tmp_path, flags):
    training, _ = trainer(corpus, tmp_path, "--eval-bleu", *flags)
    assert isinstance(training.task.tokenizer, TextPipeline) == (not flags)


def test_each_start_records_the_update_that_it_resumes_from(succeed, corpus, tmp_path):
    """A run that its time limit ended continues only with a different limit."""
    options = [corpus, *TRAIN, "--disable-validation", "--save-dir", tmp_path, "--max-update"]
    limited = [6, "--stop-time-hours", "1e-9"]
    for last in (limited, limited, [6]):
        succeed("fairseq-train", *options, *last)
    records = map(json.loads, (tmp_path / "run.jsonl").read_text().splitlines())
    found = [(record["event"], record["update"]) for record in records]
    ends = [(event, update) for event, update in found if event in ("start", "end")]
    assert ends == [("start", 0), ("start", 1), ("end", 6)]


def test_each_shard_has_its_own_batch_plan(succeed, corpus, second_shard, tmp_path):
    folder = tmp_path / "run"
    log = succeed(
        *("fairseq-train", f"{corpus}:{second_shard}", *TRAIN, "--tokens-per-update", "1000"),
        *("--max-tokens", "500", "--max-epoch", "2", "--stop-time-hours", "9"),
        *("--disable-validation", "--save-dir", folder),
    )
    records = [json.loads(line) for line in (folder / "run.jsonl").read_text().splitlines()]
    assert records[-1]["event"] == "end"  # within the time limit
    epochs = [record for record in records if record["event"] == "epoch"]
    first, last = (epoch["update"] for epoch in epochs)
    planned = [int(n) for n in re.findall(r"(\d+) updates per epoch", log.stdout)]
    # At the end fairseq prepares a third epoch, which has the first shard again.
    assert planned == [first, last - first, first]
    assert records[0]["batches"]["updates"] == first
    for epoch in epochs:
        assert float(epoch["values"]["wpb"]) == pytest.approx(1000, rel=0.1)


def test_data_loaders_of_earlier_shards_end(corpus, tmp_path):
    """fairseq leaves them to the garbage collector, which may not run for many epochs."""
    training, epoch = trainer(corpus, tmp_path, "--num-workers", "1")
    for number in range(1, 4):
        list(epoch.next_epoch_itr())
        epoch = training.get_train_iterator(number, disable_iterator_cache=True)
    assert len(multiprocessing.active_children()) <= 2


def test_epochs_after_the_curriculum_are_shuffled(corpus, tmp_path):
    """fairseq's data loader, which it reuses, keeps the first epoch's order."""
    _, epoch = trainer(corpus, tmp_path, "--curriculum", "1", "--batch-size", "300")
    first, second = (
        [
            max(batch["net_input"]["src_tokens"].size(1), batch["target"].size(1))
            for batch in epoch.next_epoch_itr(shuffle=number > 1)
        ]
        for number in (1, 2)
    )
    assert first == sorted(first) and second != first


@pytest.mark.parametrize("flags", ["--tokens-per-update 1000", "--batch-size 20"])
def test_pairs_with_longer_sides_of_similar_length_form_a_batch(corpus, tmp_path, flags):
    training, epoch = trainer(corpus, tmp_path, *flags.split())
    dataset = training.task.dataset("train")
    longer = np.maximum(dataset.src_sizes, dataset.tgt_sizes)
    batches = sorted(epoch.frozen_batches, key=lambda batch: longer[batch].max())
    assert sorted(np.concatenate(batches)) == list(range(len(dataset)))
    for batch, following in itertools.pairwise(batches):
        assert longer[batch].max() <= longer[following].min()


@pytest.mark.parametrize(
    "tokens, messages",
    [
        (4000, []),
        (1_000_000, [r"updates have .* \d+% fewer than --tokens-per-update 1,000,000: .*"]),
        (1, [r"updates have [\d,]+ target tokens .* \d+% more than --tokens-per-update 1: .*"]),
    ],
)
def test_unreachable_tokens_per_update_gives_a_warning(corpus, tmp_path, caplog, tokens, messages):
    trainer(corpus, tmp_path, "--tokens-per-update", str(tokens), "--max-tokens", "1500")
    plans = [record for record in caplog.records if record.name.endswith("batch_plan")]
    warnings = [record.getMessage() for record in plans if record.levelname == "WARNING"]
    assert len(warnings) == len(messages)
    assert all(map(re.fullmatch, messages, warnings))


def test_each_shard_is_checked_before_its_epoch(corpus, second_shard, tmp_path):
    broken = second_shard / "train.en-de.de.bin"
    content = broken.read_bytes()
    broken.write_bytes(content[:40] + b"\xff\xff" + content[42:])
    training, _ = trainer(f"{corpus}:{second_shard}", tmp_path / "run")  # the first is intact
    with pytest.raises(InputError, match=f"{broken}: sentence 11 has the token ID 65535"):
        training.get_train_iterator(2)
