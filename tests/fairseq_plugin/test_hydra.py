"""The configurations for fairseq-hydra-train are the architectures."""

import pytest
from models import configuration
from omegaconf import OmegaConf

from aiayn_plugin.fairseq_plugin import hydra

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize("arch", hydra.SHIPPED)
def test_the_shipped_files_are_what_the_module_writes(arch):
    """`python -m aiayn_plugin.fairseq_plugin.hydra` writes them anew after a change in paper.py."""
    assert (hydra.DIRECTORY / f"{arch}.yaml").read_text("utf-8") == hydra.configuration(arch)


@pytest.mark.parametrize("arch", ["aiayn_base", "aiayn_big"])
def test_the_shipped_configurations_are_the_architectures(repo, arch):
    shipped = OmegaConf.load(repo / "aiayn_plugin" / "config" / f"{arch}.yaml")
    cfg = configuration("--arch", arch)
    shipped.task.data = "data"
    cfg.common.user_dir = "aiayn_plugin"
    for group, values in OmegaConf.to_container(shipped, resolve=True).items():
        of_command = OmegaConf.to_container(cfg[group], resolve=True, enum_to_str=True)
        for name, value in values.items():
            assert of_command[name] == value, f"{group}.{name}"
    left_out = set(cfg.model) - set(shipped.model)
    assert not left_out, "fairseq fills nothing into a model that hydra configures"
