"""fairseq-hydra-train with the configurations of the package."""

import pytest
from commands import PLUGIN, last_line


def hydra_train(run, corpus, folder, arch, *settings):
    """Return the log of fairseq-hydra-train with a shipped configuration and these settings."""
    directory = run("aiayn", "configs").stdout.strip()
    return run(
        *("fairseq-hydra-train", "--config-dir", directory, "--config-name", arch),
        *(f"task.data={corpus}", f"common.user_dir={PLUGIN}", "common.cpu=true"),
        *(f"checkpoint.save_dir={folder}/checkpoints", *settings),
        cwd=folder,
    )


@pytest.mark.parametrize("arch", ["aiayn_base", pytest.param("aiayn_big", marks=pytest.mark.long)])
def test_hydra_trains(run, corpus, tmp_path, arch):
    log = hydra_train(
        run,
        corpus,
        tmp_path,
        arch,
        "common.log_format=simple",
        "common.log_interval=1",
        "model.N=1",
        "model.d_model=32",
        "model.d_ff=64",
        "task.tokens_per_update=500",
        "optimization.max_update=3",
        "dataset.num_workers=0",
        "dataset.disable_validation=true",
        "checkpoint.save_interval_updates=2",
    )
    assert log.returncode == 0, log.stderr[-3000:]
    text = log.stdout + log.stderr
    assert "the paper's settings and this run's" in text
    assert "d_model" in text and "< changed" in text
    mean = run(
        *("aiayn", "average", "--inputs", tmp_path / "checkpoints"),
        *("--num-update-checkpoints", "1", "--output", tmp_path / "model.pt"),
    )
    assert mean.returncode == 0, mean.stderr
    out = run(
        *("fairseq-generate", corpus, "--user-dir", "aiayn_plugin"),
        *("--path", tmp_path / "model.pt", "--gen-subset", "test", "--cpu", "--max-len-b", "5"),
        cwd=tmp_path,
    )
    assert out.returncode == 0, out.stderr
    assert out.stdout.count("\nH-") == 5


@pytest.mark.long
def test_a_run_resumes_in_its_hydra_directory(run, corpus, tmp_path):
    for updates in (2, 4):
        log = run(
            *("fairseq-hydra-train", "--config-dir", run("aiayn", "configs").stdout.strip()),
            *("--config-name", "aiayn_base", f"task.data={corpus}", "common.cpu=true"),
            *(f"common.user_dir={PLUGIN}", f"optimization.max_update={updates}"),
            *("model.N=1", "model.d_model=32", "model.d_ff=64", "dataset.num_workers=0"),
            *("dataset.disable_validation=true", f"hydra.run.dir={tmp_path}/run"),
            cwd=tmp_path,
        )
        assert log.returncode == 0, log.stderr[-3000:]
    assert (tmp_path / "run/checkpoints/checkpoint_last.pt").is_file()
    assert "@ 2 updates" in log.stdout + log.stderr


def test_bad_settings_end_with_one_line(run, corpus, tmp_path):
    log = hydra_train(run, corpus, tmp_path, "aiayn_base", "model._name=aiayn_c_n2")
    assert last_line(log) == (
        "fairseq-hydra-train: error: model._name=aiayn_c_n2 alone does not change the settings: "
        "give model.N=2"
    )
