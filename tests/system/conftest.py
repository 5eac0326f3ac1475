"""Fixtures of the tests of commands and recipes."""

from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def dry_run(run, repo) -> Callable[..., str]:
    """`dry_run("quickstart", "--seed", "2", RUN="x")` is what a recipe prints with DRY_RUN=1."""

    def print_commands(recipe: str, *arguments: str, cwd=repo, **environment: str) -> str:
        command = ("bash", repo / f"examples/{recipe}.sh", *arguments)
        done = run(*command, cwd=cwd, env={"DRY_RUN": "1", **environment})
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout

    return print_commands
