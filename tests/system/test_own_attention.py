"""examples/own_attention.md: its code and its commands, as they are on the page."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch
from commands import last_line

from aiayn_plugin.inference import Translator


@pytest.fixture(scope="module")
def page(repo) -> str:
    return (repo / "examples" / "own_attention.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(succeed, page, corpus, tmp_path_factory) -> tuple[Path, str]:
    """A directory that was empty except for run/data, after all commands, and their output."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copytree(corpus, folder / "run" / "data")
    code, (commands, *_) = blocks(page, "python")[0], blocks(page, "bash")
    assert len(code.splitlines()) <= 30
    (folder / "talking_heads").mkdir()
    (folder / "talking_heads" / "__init__.py").write_text(code, encoding="utf-8")
    *lines, last = commands.replace("\\\n", "").splitlines()
    output = ""
    for line in lines:
        command, _, name = line.partition(" > ")
        log = succeed(*shlex.split(command, comments=True), cwd=folder)
        if name:
            (folder / name).write_text(log.stdout, encoding="utf-8")
        output += log.stdout
    # The last command imports the code before fairseq.
    log = succeed("bash", "-euo", "pipefail", "-c", last, cwd=folder)
    return folder, output + log.stdout


def test_the_commands_train_average_and_translate(folder):
    directory, output = folder
    assert "talking_heads (not in the paper; compared with aiayn_base)" in output
    assert re.search(r"^optimizer +aiayn_adam +aiayn_adam$", output, re.MULTILINE)
    assert re.search(r"^D-4\t", (directory / "generate.log").read_text(), re.MULTILINE)
    last = output.splitlines()[-1]
    expected = Translator.load(directory / "run", "cpu", user_dir=directory / "talking_heads")
    assert expected.translate(["March 3"]) == [last]


def check_search(translator: Translator, texts: list[str]) -> None:
    """Scores of the search, step by step, equal those of a pass over the whole translation."""
    model = translator.model.double()
    torch.manual_seed(1)
    for name, weight in model.named_parameters():
        if "mix_" in name or "W_" in name:
            weight.data += 0.3 * torch.randn_like(weight)
    sources = [translator.token_ids(translator.pipeline.encode(text).split()) for text in texts]
    longest = 0
    for source, (best, *_) in zip(sources, translator.search(sources), strict=True):
        shifted = best.tokens.roll(1)[None]
        logits, _ = model(source[None], None, shifted)
        expected = logits[0].log_softmax(dim=-1).gather(1, best.tokens[:, None])[:, 0]
        torch.testing.assert_close(best.positional_scores.double(), expected, rtol=0, atol=1e-6)
        longest = max(longest, len(best.tokens))
    assert longest > 8, "too short for the cache to drop keys"


def test_its_attention_is_the_same_with_the_cache(folder):
    directory, _ = folder
    translator = Translator.load(directory / "run", "cpu", user_dir=directory / "talking_heads")
    check_search(translator, ["May 1", "May 2"])


@pytest.fixture(scope="module")
def alibi(succeed, page, corpus, tmp_path_factory) -> tuple[Path, str]:
    """A directory with the page's second module and a run of it, and the log of its training."""
    folder = tmp_path_factory.mktemp("alibi")
    shutil.copytree(corpus, folder / "run" / "data")
    (folder / "alibi").mkdir()
    (folder / "alibi" / "__init__.py").write_text(blocks(page, "python")[1], encoding="utf-8")
    log = succeed(
        *("fairseq-train", "run/data", "--user-dir", "alibi", "--arch", "alibi", "--slope", "0.25"),
        *("--N", "2", "--d-model", "32", "--max-update", "5", "--cpu", "--num-workers", "0"),
        *("--save-dir", "run", "--disable-validation"),
        cwd=folder,
    )
    (folder / "run" / "checkpoint_last.pt").rename(folder / "run" / "model.pt")
    return folder, log.stdout + log.stderr


def test_a_custom_option_reaches_the_attention_and_the_table(alibi):
    folder, log = alibi
    assert re.search(r"^slope +- +0\.25 +< changed$", log, re.MULTILINE)
    model = Translator.load(folder / "run", "cpu", user_dir=folder / "alibi").model
    assert {layer.self_attention.slope for layer in model.decoder.layers} == {0.25}


def test_relative_positions_are_the_same_with_the_cache(alibi):
    folder, _ = alibi
    translator = Translator.load(folder / "run", "cpu", user_dir=folder / "alibi")
    check_search(translator, [f"May {n}, May {n}, May {n}" for n in (1, 2)])


def test_only_the_users_option_imports_code(run, folder):
    """A checkpoint that names its --user-dir is refused without that option."""
    directory, _ = folder
    state = torch.load(directory / "run" / "model.pt")
    assert state["cfg"]["common"]["user_dir"] == "talking_heads"
    error = last_line(run("aiayn", "translate", "run", cwd=directory, input="\n"))
    assert error.endswith("and aiayn convert converts fairseq's transformer")
    assert "architecture talking_heads is not one of the plugin's, which aiayn bundle" in error
    # The plugin's own name is a --user-dir in every directory. It registers no such architecture.
    own = run("aiayn", "translate", "run", "--user-dir=aiayn_plugin", cwd=directory, input="\n")
    assert last_line(own) == error
    for options, status in (([], 1), (["--user-dir", "talking_heads"], 0)):
        done = run("aiayn", "attention", "run", *options, cwd=directory, input="May\n")
        assert done.returncode == status, done.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [("none", "does not exist"), ("broken", "cannot be imported: No ")],
)
def test_a_user_dir_that_cannot_be_imported_is_reported_in_one_line(
    model_dir, tmp_path, error, name, message
):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text("import no_such_module\n")
    assert message in error("translate", model_dir, "--user-dir", tmp_path / name)


def test_the_model_without_fairseq(page):
    names: dict = {}
    exec(blocks(page, "python")[2], names)
    assert names["logits"].shape == (2, 3, 1000)
    assert names["tokens"].dim() == 2 and len(names["tokens"]) == 2
