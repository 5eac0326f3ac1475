"""fairseq-hydra-train with the configurations of the package."""

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

import aiayn_plugin  # noqa: F401  registers the architectures


@pytest.mark.parametrize("arch", ["aiayn_base", "aiayn_big"])
def test_the_shipped_configurations_are_the_architectures(repo, arch):
    shipped = OmegaConf.load(repo / "aiayn_plugin" / "config" / f"{arch}.yaml")
    argv = ["data", "--arch", arch]
    cfg = convert_namespace_to_omegaconf(
        options.parse_args_and_arch(options.get_training_parser(), argv)
    )
    shipped.task.data = "data"
    cfg.common.user_dir = "aiayn_plugin"
    for group, values in OmegaConf.to_container(shipped, resolve=True).items():
        found = OmegaConf.to_container(cfg[group], resolve=True, enum_to_str=True)
        for name, value in values.items():
            assert found[name] == value, f"{group}.{name}"
    left_out = set(cfg.model) - set(shipped.model)
    assert not left_out, "fairseq fills nothing into a model that hydra configures"


@pytest.mark.parametrize("arch", ["aiayn_base", pytest.param("aiayn_big", marks=pytest.mark.long)])
def test_hydra_trains(run, repo, corpus, tmp_path, arch):
    directory = run("aiayn", "configs").stdout.strip()
    log = run(
        "fairseq-hydra-train", "--config-dir", directory, "--config-name", arch,
        f"task.data={corpus}", "common.cpu=true", "common.log_format=simple",
        "common.log_interval=1", "model.N=1", "model.d_model=32", "model.d_ff=64",
        "task.tokens_per_update=500", "optimization.max_update=3", "dataset.num_workers=0",
        "dataset.disable_validation=true", "checkpoint.save_interval_updates=2",
        f"checkpoint.save_dir={tmp_path}/checkpoints", cwd=tmp_path,
    )  # fmt: skip
    assert log.returncode == 0, log.stderr[-3000:]
    text = log.stdout + log.stderr
    assert "the paper's settings and this run's" in text
    assert "d_model" in text and "< changed" in text
    made = run("aiayn", "average", "--inputs", tmp_path / "checkpoints",
               "--num-update-checkpoints", "1", "--output", tmp_path / "model.pt")  # fmt: skip
    assert made.returncode == 0, made.stderr
    out = run("fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--path",
              tmp_path / "model.pt", "--gen-subset", "test", "--cpu", "--max-len-b", "5",
              cwd=tmp_path)  # fmt: skip
    assert out.returncode == 0, out.stderr
    assert out.stdout.count("\nH-") == 5
