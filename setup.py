"""The distribution aiayn-plugin: "Attention Is All You Need" as a fairseq --user-dir plugin."""

from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="aiayn-plugin",
    version="0.1.0",
    description='"Attention Is All You Need" (Vaswani et al., 2017) as a fairseq plugin',
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=["aiayn_plugin*"]),
    package_data={
        "aiayn_plugin": ["*/*.yaml", "*.css", "*/*.css", "*/*.html", "*/*.js", "*/*.md", "demo/*"]
    },
    entry_points={"console_scripts": ["aiayn = aiayn_plugin.cli:main"]},
    install_requires=[
        # fairseq's last release cannot be imported on Python 3.11 and later; fairseq-fixed is its
        # last main branch, fixed for them, with the same import name and commands.
        'fairseq==0.12.2; python_version < "3.11"',
        'fairseq-fixed==0.12.3.1; python_version >= "3.11"',
        # Before 2.10 torch.load could run a checkpoint's code even with weights_only
        # (CVE-2026-24747, CVE-2025-32434).
        "torch>=2.10",
        # text/tokenizer.py edits the text of its rules, which a new release may change.
        "sacremoses>=0.2,<0.3",
        "regex",
        "subword-nmt",
        "sacrebleu>=2.0",
        "safetensors",
        "Babel",
    ],
    extras_require={
        "test": [
            "pytest>=9",
            "pytest-xdist",
            "ruff==0.17.6",
            "mypy",
            "mosestokenizer",
            "selenium",
            "PYEVALB",
            "nbclient>=0.9",
            "ipykernel",
            "transformers>=4.30",
        ],
        "corpus": ["num2words"],
        "view": ["matplotlib"],
        "export": ["ctranslate2"],
        "parsing": ["nltk"],
        # service/server.py extends a class that uvicorn does not document.
        # h11 before 0.16 accepts malformed chunked requests (CVE-2025-43859).
        "serve": ["starlette", "uvicorn>=0.30,<0.55", "h11>=0.16"],
        "tensorboard": ["tensorboard"],
        "transformers": ["transformers>=4.30"],
        # Before 0.2.1 a model file could corrupt memory (CVE-2026-1260).
        "wordpiece": ["sentencepiece>=0.2.1"],
    },
)
