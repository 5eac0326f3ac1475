"""Options, files and headings that the documents name exist; slurm.sh does what they say."""

import re

import pytest
from commands import write_program

PAGES = ["README.md", *(f"examples/{n}.md" for n in ("README", "guide", "measurements"))]


@pytest.mark.parametrize("page", PAGES)
def test_the_options_of_commands_exist(run, repo, page):
    text = (repo / page).read_text("utf-8").replace("\\\n", " ")
    known: dict[str, set[str]] = {}
    for line in re.findall(r"\baiayn ([a-z][^\n`|>#]*)", text):
        name = re.match(r"benchmark [a-z]+|[a-z0-9-]+", line)[0]
        if options := set(re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", line)):
            if name not in known:
                shown = run("aiayn", *name.split(), "--help").stdout
                known[name] = set(re.findall(r"--[a-z][a-z0-9-]*", shown))
            assert options <= known[name], line
    assert known


@pytest.mark.parametrize("page", PAGES)
def test_code_blocks_are_valid_shell_commands(run, repo, page):
    """Wrapped like a paragraph, a command would end up in the comment before it."""
    for block in re.findall(r"^```\n(.*?)^```", (repo / page).read_text("utf-8"), re.M | re.S):
        if re.match(r"(bash|aiayn|fairseq|echo|export|[A-Z]+=)", block):
            assert run("bash", "-n", "-c", block).returncode == 0, block
            assert not re.search(r"# .* (bash|echo)$|^examples/", block, re.MULTILINE), block


def test_links_lead_to_files_and_headings(repo):
    def anchors(path):
        headings = re.findall(r"^#+ (.*)", path.read_text("utf-8"), re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}

    for page in (*repo.glob("*.md"), *repo.glob("examples/*.md")):
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text("utf-8")):
            file, _, anchor = link.partition("#")
            path = page.parent / file if file else page
            assert path.exists() and (not anchor or anchor in anchors(path)), f"{page}: {link}"


def test_slurm_starts_one_torchrun_per_node(run, repo, tmp_path):
    for name, body in (("scontrol", "printf 'a\\nb\\n'"), ("srun", 'echo "$@"')):
        write_program(tmp_path / name, body)
    slurm = {"JOB_ID": "7", "NNODES": "2", "JOB_NODELIST": "a,b", "SUBMIT_DIR": str(repo)}
    command = f"PATH={tmp_path}:$PATH PROCESSES=3 exec bash {repo}/examples/slurm.sh DATA --cpu"
    done = run("bash", "-c", command, env={f"SLURM_{name}": value for name, value in slurm.items()})
    start = "--ntasks-per-node=1 torchrun --nnodes 2 --nproc_per_node 3 "
    assert done.stdout.startswith(start), done.stderr
    assert "--rdzv-id 7 --rdzv-backend c10d --rdzv-endpoint a:29500 " in done.stdout
    assert done.stdout.endswith("/fairseq-train DATA --cpu --user-dir aiayn_plugin\n")
