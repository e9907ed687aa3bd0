"""The speed benchmark compares like with like: the limit counts what the models do, and the plain contestants learn."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

SPEED = Path(__file__).parents[2] / "benchmarks" / "speed"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SPEED))
    monkeypatch.syspath_prepend(str(SPEED / "contestants"))


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def flop_a_token(model: str, sources: int = 16, targets: int = 16) -> float:
    """Of a full batch without padding, in millions."""
    shapes = module("shapes")
    shape = shapes.SHAPES[model]
    products = shapes.training(shape, shape.batch, sources, targets, shape.batch * targets)
    return sum(product.flop for product in products) / (shape.batch * targets) / 1e6


@pytest.mark.parametrize(("model", "expected"), [("S", 48.7), ("M", 81.8)])
def test_the_limit_counts_the_work_of_a_model(model: str, expected: float) -> None:
    assert flop_a_token(model) == pytest.approx(expected, rel=0.04)


def test_the_language_models_work_is_that_of_its_layers() -> None:
    by_hand = 6 * (2 * (200 * 800 + 200 * 800) + 200 * 10_000) / 1e6
    assert flop_a_token("LM", targets=20) == pytest.approx(by_hand)


def test_the_limit_multiplies_matrices_of_every_shape_it_names() -> None:
    limit, shapes = module("limit"), module("shapes")
    for product in [*shapes.dense("x", 3, 4, 5, 2), *shapes.batched("x", 2, 3, 4, 5)]:
        expected = (product.rows, product.m, product.n) if product.batched else (product.m, product.n)
        assert limit.ready(product)().shape == expected


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A file of three little batches, and sentences to decode."""
    rows = [[5 + (3 * i + j) % 40 for j in range(4 + i % 2)] + [3] for i in range(4)]
    content = {"train": [{"source": rows, "target": rows[::-1]}] * 3, "decode": [[5, 6, 7, 3]] * 4}
    path = tmp_path / "batches.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("contestant", "model"),
    [
        *itertools.product(["ours", "careful"], ["S", "M", "LM"]),
        *itertools.product(["limit"], ["S", "M"]),
        ("tutorial", "S"),
    ],
)
def test_a_contestant_trains(contestant: str, model: str, job: Path) -> None:
    contest = module("contest")
    done = contest.measure_training(
        contest.Job(model, "train", torch.get_num_threads(), str(job), warmup=1, steps=2), module(contestant).train
    )
    assert done["tokens_per_second"] > 0
    assert len(done["losses"]) == 3
    if contestant != "limit":
        assert done["losses"][-1] < done["losses"][0]
        assert done["parameters"] > 4_000_000


@pytest.mark.parametrize("contestant", ["ours", "careful"])
@pytest.mark.parametrize("model", ["S", "M"])
def test_a_contestant_decodes_as_many_tokens_as_asked_for(contestant: str, model: str, job: Path) -> None:
    contest = module("contest")
    asked = contest.Job(model, "decode", torch.get_num_threads(), str(job), seconds=0.0, searches=((1, 2), (2, 1)))
    translate = module(contestant).decoder(asked)
    for beam in (1, 2):
        assert [len(output) for output in translate([[5, 6, 7, 3]] * 2, beam)] == [13, 13]


def test_the_careful_loop_and_ours_are_of_one_size(job: Path) -> None:
    contest = module("contest")
    for model in ("S", "M"):
        asked = contest.Job(model, "train", 1, str(job))
        sizes = [sum(p.numel() for p in module(name).make(asked).parameters()) for name in ("ours", "careful")]
        assert sizes[0] == pytest.approx(sizes[1], rel=0.001)  # torch's cells have two biases where ours have one


STEPPER = """
import contest

def train(job, batches, watch):
    watch.begin(1)
    for number in range(len(batches)):
        with open(job.data + ".log", "a") as log:
            log.write(f"{NAME} {number}\\n")
        if NAME == "fails" and number == 1:
            raise ValueError("no more")
        watch.step(1.0)

contest.run(train)
"""


def test_contestants_take_turns_at_every_step_and_one_that_fails_stops_nobody(job: Path) -> None:
    contest, environments = module("contest"), module("environments")
    taking_part = []
    for name in ("a", "fails", "b"):
        script = job.with_name(f"{name}.py")
        script.write_text(f"NAME = {name!r}\n{STEPPER}")
        taking_part.append(environments.Contestant(name, str(script), ("S",)))
    asked = contest.Job("S", "train", 1, str(job), warmup=1, steps=2)
    one, failed, two = module("process").run_in_turns(taking_part, asked, environments.PEERS)
    steps = Path(f"{job}.log").read_text().split("\n")[:-1]
    assert steps == ["a 0", "fails 0", "b 0", "fails 1", "b 1", "a 1", "b 2", "a 2"]
    assert failed["failed"] == "ValueError: no more"
    assert len(one["losses"]) == len(two["losses"]) == 3


def run(contestant: str, rate: float, loss: float, turn: int = 0) -> dict[str, object]:
    return {
        "what": "train", "model": "S", "threads": 1, "contestant": contestant, "round": turn, "tokens_per_second": rate,
        "tokens_per_cpu_second": rate, "losses": [9.0, loss], "parameters": 1, "peak_mb": 1,
    }  # fmt: skip


def test_a_share_is_the_median_of_the_shares_of_rounds_that_both_ended() -> None:
    limits, rates = (200, 100, 400, 100), (100, 60, 360, 10)
    runs = [run("limit", rate, 0.0, turn) for turn, rate in enumerate(limits[:3])]
    runs += [run("a", rate, 5.0, turn) for turn, rate in enumerate(rates)]
    rows = {row["contestant"]: row for row in module("summary").summarise(runs)}
    assert rows["a"]["share"] == {"tokens/s": 0.6}  # of 0.5, 0.6 and 0.9
    assert rows["limit"]["share"] == {"tokens/s": 1.0}


def test_a_loss_that_falls_otherwise_is_told() -> None:
    runs = [run("limit", 200, 0.0), run("a", 100, 5.0), run("b", 120, 5.1), run("c", 150, 7.0)]
    rows = {row["contestant"]: row for row in module("summary").summarise(runs)}
    assert [rows[name]["alike"] for name in "abc"] == [True, True, False]
    assert rows["a"]["share"] == {"tokens/s": 0.5}
    assert "NOT ALIKE" in module("summary").table(list(rows.values()), {})


def test_a_contestant_that_fails_is_told_with_the_reason() -> None:
    runs = [
        run("a", 100, 5.0),
        {"what": "train", "model": "S", "threads": 1, "contestant": "b", "round": 0, "failed": "no torch"},
    ]
    text = module("summary").table(module("summary").summarise(runs), {"S": {"c": "is not installed"}})
    assert "b                          failed: no torch" in text
    assert "c: is not installed" in text


def test_every_contestant_that_needs_an_environment_has_its_requirements() -> None:
    environments = module("environments")
    for contestant in environments.CONTESTANTS:
        assert (SPEED / "contestants" / contestant.script).exists()
        if contestant.peer:
            assert (SPEED / "requirements" / f"{contestant.peer}.txt").exists()
        assert {"S", "M"} <= {*contestant.models, *contestant.absent}


def test_a_tagger_trains_on_batches_of_one_length_and_tags_all_sentences_as_they_came(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    contest, ours = module("tag_contest"), module("ours_tagger")
    rows = [[["a"] * (1 + n % 4) + ["b"], ["X"] * (1 + n % 4) + ["Y"]] for n in range(16)]
    (tmp_path / "rows").write_text(json.dumps(rows))
    monkeypatch.setattr("sys.argv", ["", json.dumps({"threads": 1, "data": str(tmp_path / "rows"), "batch": 4})])
    seen: list[list[int]] = []
    asked: list[list[list[str]]] = []

    class Spy(ours.OurTagger):  # type: ignore[misc, name-defined]
        def __init__(self, job: object, batches: list[list[tuple[list[str], list[str]]]]):
            seen.extend([len(words) for words, _ in batch] for batch in batches)
            super().__init__(job, batches)

        def tag(self, words: list[list[str]]) -> list[list[str]]:
            asked.append(words)
            found: list[list[str]] = super().tag(words)
            return found

    contest.run(Spy)
    assert sorted(seen) == [[length] * 4 for length in (2, 3, 4, 5)]
    assert asked[-1] == [row[0] for row in rows]
    outcome = json.loads(capsys.readouterr().out.removeprefix("OUTCOME "))
    assert outcome.keys() == {"train", "predict", "loss", "parameters"}
    assert outcome["train"] > 0 < outcome["predict"]


def test_loops_of_the_tagging_benchmark_are_the_same_field() -> None:
    loops, tagging = module("crf_loops"), module("tagging")
    emissions, gold, mask, scores = tagging.crf_batch(4, 32)
    emissions, gold, mask = emissions[:3], gold[:3], mask[:3]
    leaf = [part.double().requires_grad_() for part in (emissions, *scores)]
    found = []
    for way in (tagging.our_loss, loops.loop_loss, loops.tutorial_loss):
        loss = way(leaf[0], gold, mask, tuple(leaf[1:]))
        found.append([loss.detach(), *torch.autograd.grad(loss, leaf)])
    for other in found[1:]:
        assert all(torch.allclose(a, b) for a, b in zip(found[0], other, strict=True))
    bests = [way(emissions, mask, scores) for way in tagging.BESTS.values()]
    assert len(bests) == 4
    assert all(best == bests[0] for best in bests)
