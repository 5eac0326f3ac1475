"""fairseq-hydra-train with the configurations of the package."""

from commands import PLUGIN, last_line


def hydra_train(run, corpus, folder, *settings):
    """Return the log of fairseq-hydra-train with a shipped configuration, in `folder`/run."""
    directory = run("aiayn", "configs").stdout.strip()
    return run(
        *("fairseq-hydra-train", "--config-dir", directory, "--config-name", "aiayn_base"),
        *(f"task.data={corpus}", f"common.user_dir={PLUGIN}", "common.cpu=true"),
        *(f"hydra.run.dir={folder}/run", *settings),
        cwd=folder,
    )


def test_hydra_trains_and_resumes(succeed, corpus, tmp_path):
    settings = (
        *("common.log_format=simple", "common.log_interval=1", "task.tokens_per_update=500"),
        *("model.N=1", "model.d_model=32", "model.d_ff=64", "dataset.num_workers=0"),
        *("dataset.disable_validation=true", "checkpoint.save_interval_updates=2"),
    )
    logs = [
        hydra_train(succeed, corpus, tmp_path, *settings, f"optimization.max_update={updates}")
        for updates in (2, 3)
    ]
    first, second = (log.stdout + log.stderr for log in logs)
    assert "the paper's settings and this run's" in first
    assert "d_model" in first and "< changed" in first
    assert "@ 2 updates" in second
    succeed(
        *("aiayn", "average", "--inputs", tmp_path / "run" / "checkpoints"),
        *("--num-update-checkpoints", "1", "--output", tmp_path / "model.pt"),
    )
    out = succeed(
        *("fairseq-generate", corpus, "--user-dir", "aiayn_plugin"),
        *("--path", tmp_path / "model.pt", "--gen-subset", "test", "--cpu", "--max-len-b", "5"),
        cwd=tmp_path,
    )
    assert out.stdout.count("\nH-") == 5


def test_bad_settings_end_with_one_line(run, corpus, tmp_path):
    for name, setting in (
        ("aiayn_c_n2", "model.N=2"),
        ("aiayn_d_smoothing02", "criterion.label_smoothing=0.2"),
    ):
        settings = f"model._name={name}", "optimization.max_update=1"
        log = hydra_train(run, corpus, tmp_path, *settings)
        assert last_line(log).startswith(f"fairseq-hydra-train: error: model._name={name} ")
        assert last_line(log).endswith(f"give {setting}")
