"""The curves: every value at its update and its hour."""

import pytest
from training_runs import Record, interrupted

from aiayn_plugin.report.curves import build_comparison_charts, build_figure, build_run_charts
from aiayn_plugin.report.training_record import read_record

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def read(tmp_path):
    """`read(record)` returns a training run that was recorded."""
    return lambda record: read_record(record.write(tmp_path / "run.jsonl"))


def test_each_quantity_has_its_values(read):
    charts = {chart.title: chart for chart in build_run_charts(read(interrupted()), {})}
    titles = ["loss", "perplexity", "learning rate", "target tokens per second"]
    assert list(charts) == [*titles, "gradient norm", "fairseq's BLEU"]
    training, validation = charts["loss"].lines
    assert (training.label, validation.label) == ("training", "validation")
    assert training.points == [
        (10, pytest.approx(10 / 60), 8.9),
        (20, pytest.approx(20 / 60), 8.8),
        (30, pytest.approx(31 / 60), 8.7),
        (40, pytest.approx(41 / 60), 8.6),
        (50, pytest.approx(51 / 60), 8.5),
    ]
    assert validation.points == [(20, 0.35, 8.0), (50, pytest.approx(51.5 / 60), 8.0)]
    (rate,) = charts["learning rate"].lines
    rates = [value for _, _, value in rate.points]
    assert rates == pytest.approx([1e-4, 2e-4, 3e-4, 4e-4, 5e-4])
    assert charts["loss"].restarts == [(20, 0.35)]
    assert training.words() == "training: 8.9 at update 10, 8.5 at update 50"


def test_equation_3_is_the_rate_of_the_next_update(read):
    """fairseq logs the learning rate after each update, which is that of the next one.

    With d_model 64 and a warm-up of 4: 1/8 · min(k^-½, k/8), for k = 2 and 10.
    """
    record = read(Record().start().train(1, 60, lr=0.03).train(9, 120, lr=0.04))
    charts = {chart.title: chart for chart in build_run_charts(record, {"equation": (64, 4)})}
    equation, measured = charts["learning rate"].lines
    assert equation.colour != measured.colour and equation.width > 2 * measured.width, "on top"
    assert [point[0] for point in equation.points] == [1, 9]
    rates = [value for _, _, value in equation.points]
    assert rates == pytest.approx([1 / 8 * 2 / 8, 1 / 8 * 10**-0.5])
    assert [value for _, _, value in measured.points] == [0.03, 0.04]


def test_several_runs_have_a_line_each(read):
    runs = {"a": read(interrupted()), "b": read(Record().start().valid(7, 60, loss=4.0))}
    charts = {chart.title: chart for chart in build_comparison_charts(runs)}
    first, second = charts["loss on the validation set"].lines
    assert [point[2] for point in first.points] == [8.0, 8.0]
    assert (second.label, second.points) == ("b", [(7, pytest.approx(1 / 60), 4.0)])
    many = list(build_comparison_charts({str(n): runs["a"] for n in range(22)}))[0].lines
    assert len({(line.colour, line.style) for line in many}) == 22, "the lines can be told apart"


@pytest.mark.parametrize("seconds, unit, tick", [(3000, "minutes", 50), (18_000, "hours", 5)])
def test_a_drawn_chart_has_the_unit_of_its_length(read, seconds, unit, tick):
    record = read(Record().start().train(1, 0).train(2, seconds))
    figure = build_figure(next(build_run_charts(record, {})))
    over_updates, over_time = figure.draw()
    assert ">updates<" in over_updates and f">{unit} of training<" in over_time
    assert f">{tick}<" in over_time
    assert figure.words == "training: 8.99 at update 1, 8.98 at update 2"
