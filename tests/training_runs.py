"""Runs for the tests: their logs, their translations, and the report on them."""

from logs import TrainLog, whole_log
from models import configuration

from aiayn_plugin.fairseq_plugin.training_log import table
from aiayn_plugin.report.report import report
from aiayn_plugin.report.run import read_run
from aiayn_plugin.text.pipeline import TextPipeline

HOSTILE = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">|`"


def training_log(*flags: str, restarted: bool = True) -> TrainLog:
    """Return a log with the plugin's table in it."""
    log = whole_log() if restarted else TrainLog()
    if not restarted:
        log.start()
        log.inner(10, wall=3600, wps=100, wpb=50, bsz=4, lr=1e-4)
        log.valid(10)
    log.say(
        "the paper's settings and this run's:\n"
        + table(configuration("--arch", "aiayn_tiny", *flags))
    )
    log.say("num. shared model params: 1,234 (num. trained: 1,234)")
    return log


def generated(data, split: str, wrong: int = 0, text: str = HOSTILE) -> str:
    """Return what fairseq-generate prints for references, `wrong` of them translated as `text`."""
    pipeline = TextPipeline.load(data)
    raw = (data / f"{split}.raw.de").read_text(encoding="utf-8").splitlines()
    lines = [
        text if number < wrong else pipeline.encode(line, "de") for number, line in enumerate(raw)
    ]
    return "".join(f"H-{number}\t-0.5\t{line}\n" for number, line in enumerate(lines))


def text_of(*runs, **options) -> str:
    """Return the Markdown of a report."""
    found = report([read_run(run) for run in runs], **options)
    stem = runs[0].parent / "text"
    return found.write(stem)[1].read_text(encoding="utf-8")
