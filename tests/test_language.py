"""Language models from file to text: commands, runs that stop and go on, samples, options that do not fit."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import windlass as api
from command import refused, windlass
from windlass.core.errors import DataError, RecipeError
from windlass.core.marks import BOS
from windlass.core.records import Batch, Member
from windlass.core.tensors import read_tensors
from windlass.decoding.ensemble import Ensemble
from windlass.decoding.ngram import KneserNey
from windlass.experiment.data import read_data
from windlass.experiment.interpolation import interpolate
from windlass.experiment.run import run
from windlass.inference.likelihood import tiny_lm, token_logprobs
from windlass.recipe import compose, parse, setting
from windlass.training.observe import Silent, Step

TEXT = "the cat sat on the mat.\nthe dog lay on the log.\n" * 40
TINY = (
    "model.decoder.size=16",
    "model.decoder.embedding.size=8",
    "train.chunk=16",
    "train.batch_tokens=64",
    "train.epochs=2",
    "train.schedule.warmup=5",
    "train.optimiser.lr=0.02",
    "train.threads=1",
    "samples=25",
    "ngram_weight=0",
)
SETS = [argument for part in TINY for argument in ("--set", part)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("lm")
    (place / "text.txt").write_text(TEXT)
    (place / "test.txt").write_text("the cat lay on the log.\n")
    ran = windlass("train", "--task", "lm", place / "text.txt", "--out", place / "model", *SETS)
    assert ran.code == 0, ran.err
    (place / "said").write_text(ran.err)
    return place


def test_training_says_what_is_set_aside_and_what_is_to_be_beaten(folder):
    said = (folder / "said").read_text()
    assert "no dev file: the last 18" in said
    assert "baseline on dev: 6-gram: nats" in said
    assert "baseline on dev: window of 8: nats" in said
    assert "generate" in said.splitlines()[-2]


def test_samples_of_four_stages_are_written(folder):
    content = (folder / "model" / "training" / "samples.txt").read_text()
    assert content.count("=== ") == 4
    assert "=== 1% of training" in content
    assert "=== 100% of training" in content
    assert len(content) > 4 * 25


def test_evaluate_prints_the_model_beside_both_baselines(folder):
    ran = windlass("evaluate", folder / "model", folder / "test.txt")
    assert ran.code == 0, ran.err
    head, model, ngram, window, last, verdict = ran.out.splitlines()
    assert verdict.startswith("worse than its baseline: nats ")
    assert head.split() == ["nats", "perplexity", "bpc"]
    assert model.startswith("model ")
    assert ngram.startswith("6-gram ")
    assert window.startswith("window of 8 ")
    assert last.startswith("24 tokens, 0 of them unknown")


def test_evaluation_is_the_sum_of_what_score_says_of_every_token(folder):
    found = json.loads(windlass("evaluate", folder / "model", folder / "test.txt", "--json").out)
    scored = json.loads(windlass("score", folder / "model", folder / "test.txt", "--json").out)
    total = sum(map(math.log, scored["probabilities"]))
    assert scored["tokens"] == list("the cat lay on the log.\n")
    assert scored["logprob"] == pytest.approx(total)
    assert found["metrics"]["nats"] == pytest.approx(-total / 24, abs=1e-4)
    assert found["metrics"]["perplexity"] == pytest.approx(math.exp(-total / 24), abs=1e-3)
    assert set(found["baselines"]) == {"6-gram", "window of 8"}


def test_tokens_of_lines_are_counted_with_their_ends_as_the_mean_is(folder, tmp_path):
    bundle = api.load(folder / "model").bundle
    train = bundle.recipe.train.model_copy(update={"chunk": None})
    replace(bundle, recipe=bundle.recipe.model_copy(update={"train": train})).save(tmp_path / "lines")
    (tmp_path / "test.txt").write_text("the cat\na dog\nzat\n")
    found = json.loads(windlass("evaluate", tmp_path / "lines", tmp_path / "test.txt", "--json").out)
    rows = [
        json.loads(row)
        for row in windlass("score", tmp_path / "lines", tmp_path / "test.txt", "--json").out.splitlines()
    ]
    assert (found["texts"], found["tokens"], found["unknown"]) == (3, 7 + 5 + 3 + 3, 1)
    total = sum(row["logprob"] for row in rows)
    assert found["metrics"]["nats"] == pytest.approx(-total / found["tokens"], abs=1e-4)
    said = windlass("evaluate", tmp_path / "lines", tmp_path / "test.txt").out
    assert "18 tokens, line ends included, 1 of them unknown" in said


def test_dynamic_evaluation_learns_from_the_text_and_leaves_the_model_alone(folder):
    path = folder / "new.txt"
    path.write_text("a dog ran to a dog and a dog ran on.\n" * 12)
    before = (folder / "model" / "weights.safetensors").read_bytes()
    plain, learned = (
        json.loads(windlass("evaluate", folder / "model", path, "--json", *flags).out)
        for flags in ((), ("--dynamic", "0.003"))
    )
    assert learned["metrics"]["nats"] < plain["metrics"]["nats"] - 0.1
    assert learned["baselines"] == plain["baselines"]
    assert (plain["dynamic"], learned["dynamic"]) == (None, 0.003)
    assert (folder / "model" / "weights.safetensors").read_bytes() == before
    model = api.load(folder / "model")
    assert round(model.evaluate(path, dynamic=0.003).metrics["nats"], 3) == round(learned["metrics"]["nats"], 3)
    assert model.evaluate(path).metrics["nats"] > learned["metrics"]["nats"]
    assert (
        "one row: leave out --rows" in windlass("evaluate", folder / "model", path, "--dynamic", "1", "--rows", "2").err
    )


def test_generate_goes_on_after_a_prompt_and_the_same_seed_writes_the_same(folder):
    first, again, other = (
        windlass("generate", folder / "model", "--prompt", "the cat", "--length", "30", "--seed", seed)
        for seed in ("1", "1", "2")
    )
    assert first.code == 0, first.err
    assert first.out == again.out != other.out
    assert first.out.startswith("the cat")
    assert len(first.out) == len("the cat") + 30 + 1


def test_generate_ends_before_a_stop_and_takes_the_likeliest_if_told(folder):
    whole = windlass("generate", folder / "model", "--search", "greedy", "--length", "40").out
    stop = whole[8:11]
    cut = windlass("generate", folder / "model", "--search", "greedy", "--length", "40", "--stop", stop).out
    assert cut == whole[: whole.index(stop)] + "\n"
    narrow = windlass("generate", folder / "model", "--top-k", "1", "--length", "40").out
    assert narrow == whole  # of one token there is no choice


def test_a_prompt_is_read_and_not_only_printed(folder):
    model = api.load(folder / "model")
    a, b = (model.score([f"{begin}at"])[0].answer.probabilities[-1] for begin in ("the c", "the d"))
    assert a != b
    streamed = list(model.stream("the c", length=10, seed=5))
    assert "".join(streamed) == model.generate("the c", length=10, seed=5)
    assert len(streamed) == 10


def test_what_is_drawn_has_the_probability_that_score_gives_it(folder):
    model = api.load(folder / "model")
    greedy = model.generate("the", length=1, top_k=1)
    letters = sorted(set(TEXT))
    chances = {letter: model.score(["the" + letter])[0].answer.probabilities[-1] for letter in letters}
    assert max(chances, key=chances.__getitem__) == greedy


def test_a_prompt_with_unknown_symbols_is_told(folder):
    assert "never seen 'Ω'" in windlass("generate", folder / "model", "--prompt", "Ω", "--length", "3").err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "MODEL", "TEXT"), "use windlass generate"),
        (("bench", "MODEL"), "no input to predict from"),
        (("bench", "MODEL", "TEXT"), "no input to predict from"),
        (("explain", "MODEL", "the", "--out", "x.png"), "no source to attend to"),
        (("generate", "MODEL", "--search", "beam"), "no best text"),
        (("generate", "MODEL", "--temperature", "0"), "--temperature"),
        (("evaluate", "MODEL", "TEXT", "--beam", "3"), "no search"),
    ],
)
def test_what_a_language_model_cannot_do_is_told_in_one_line(folder, arguments, said):
    known = {"MODEL": folder / "model", "TEXT": folder / "test.txt"}
    assert said in refused(*(known.get(a, a) for a in arguments))


def test_other_models_do_not_generate(tiny_model):
    assert "not a language model" in refused("generate", tiny_model)
    assert "--rows" in refused("evaluate", tiny_model, "x.tsv", "--rows", "2")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"task": "text", "train": {"chunk": 5}}, "train.chunk: 5 is for a language model"),
        ({"task": "text", "samples": 5}, "samples: 5 is for a language model"),
        ({"task": "text", "ngrams": 5}, "ngrams: 5 is for a language model"),
        ({"task": "text", "ngram_weight": 0.5}, "ngram_weight: 0.5 is for a language model"),
    ],
)
def test_what_is_for_a_language_model_alone_is_refused_elsewhere(settings, said):
    with pytest.raises(RecipeError, match=said):
        parse(settings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("search=beam", "no best text"),
        ("search.length_factor=500", "set search.length_plus instead"),
        ("train.sampling=constant", "train.sampling has no use with train.chunk"),
        ("train.chunk=100000", "lower it"),
        ("model.decoder.context=attention", "there is no memory"),
        ("source=text", "task lm reads none"),
    ],
)
def test_what_does_not_go_with_a_language_model_is_refused(text, said):
    with pytest.raises(RecipeError, match=said):
        compose("lm", None, [setting(text)])


def test_pairs_are_not_texts_and_texts_are_not_pairs():
    with pytest.raises(DataError, match="not from pairs"):
        api.fit([("a", "b")], task="lm")
    with pytest.raises(DataError, match="list of texts is for task lm"):
        api.fit(["a", "b"], task="text")


class StopAfter(Silent):
    """Wants to stop after so many steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def step(self, step: Step) -> None:
        if step.step == self.steps:
            raise KeyboardInterrupt


@pytest.mark.parametrize("stop", [3, 27, 30])
def test_a_run_of_running_text_that_is_stopped_and_resumed_equals_one_never_stopped(tmp_path, stop):
    (tmp_path / "text.txt").write_text(TEXT)
    settings = [setting(text) for text in (*TINY, "model.decoder.dropout=0.2", "samples=5")]
    recipe = compose("lm", None, [{"data": {"train": [str(tmp_path / "text.txt")]}}, *settings])
    data = read_data(recipe)
    whole = run(recipe, data, tmp_path / "whole", Silent())
    assert run(recipe, data, tmp_path / "part", StopAfter(stop)).fit.reason == "interrupted"
    torch.manual_seed(99)
    part = run(recipe, data, tmp_path / "part", Silent(), resume=True)
    assert whole.fit.steps == part.fit.steps > 30
    a, b = (read_tensors(tmp_path / name / "weights.safetensors")[0] for name in ("whole", "part"))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert whole.dev is not None
    assert whole.dev.metrics == part.dev.metrics  # type: ignore[union-attr]


def test_samples_change_nothing_of_a_run(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    weights = []
    for samples in ("null", "20"):
        settings = [setting(text) for text in (*TINY, "model.decoder.dropout=0.2", f"samples={samples}")]
        recipe = compose("lm", None, [{"data": {"train": [str(tmp_path / "text.txt")]}}, *settings])
        run(recipe, read_data(recipe), tmp_path / samples, Silent())
        weights.append(read_tensors(tmp_path / samples / "weights.safetensors")[0])
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.fixture(scope="module")
def interpolated(folder) -> Path:
    """Models of sentences at random, which no n-gram knows by heart; 0.3 is not what dev would choose."""
    chance = random.Random(1)
    words = [chance.choice(("the", "a", "cat", "dog", "sat", "lay", "on", "mat", "log")) for _ in range(700)]
    (folder / "words.txt").write_text(" ".join(words) + ".")
    for name, weight in (("auto", "auto"), ("fixed", "0.3")):
        flags = [*SETS, "--set", f"ngram_weight={weight}"]
        ran = windlass("train", "--task", "lm", folder / "words.txt", "--out", folder / name, *flags)
        assert ran.code == 0, ran.err
        (folder / f"{name} said").write_text(ran.err)
    return folder


def nats(folder, text):
    """Those of every token under the network alone, the n-gram model alone, and the model as it is."""
    model = api.load(folder).bundle
    ids, found = token_logprobs([model], [text])[0]
    (_, network), ngram = token_logprobs([replace(model, interpolation=None)], [text])[0], model.interpolation.ngram
    return network.exp(), torch.from_numpy(ngram.logprobs([ids])).exp(), found.exp()


def test_the_weight_of_the_ngram_model_is_the_best_on_dev_and_said(interpolated):
    said = (interpolated / "auto said").read_text()
    weight = api.load(interpolated / "auto").bundle.interpolation.weight
    assert f"interpolated with the 6-gram, ngram_weight {weight:.2f}: nats " in said
    held_out = int(re.search(r"no dev file: the last (\d+)", said)[1])
    network, ngram, _ = nats(interpolated / "auto", (interpolated / "words.txt").read_text()[-held_out:])
    assert 0.5 < weight < 0.995
    near = [float(((1 - w) * network + w * ngram).log().mean()) for w in (weight - 0.005, weight, weight + 0.005)]
    assert max(near) == near[1]
    info = json.loads(windlass("info", interpolated / "auto", "--json").out)
    assert info["head"] == f"text, interpolated with a 6-gram, ngram_weight {weight:.2f}"


def test_an_interpolated_model_gives_each_token_the_weighted_mean_of_both_probabilities(interpolated):
    network, ngram, found = nats(interpolated / "fixed", "the dog sat on a log.\n" * 3)
    assert torch.allclose(found, 0.7 * network + 0.3 * ngram)
    assert not torch.allclose(network, ngram, rtol=0.2)


def test_an_interpolated_model_draws_what_it_scores(interpolated):
    model = api.load(interpolated / "fixed")
    letters = sorted(set((interpolated / "words.txt").read_text()))
    for begin in ("t", "the ", "the dog l"):
        chances = {c: model.score([begin + c])[0].answer.probabilities[-1] for c in letters}
        assert sum(chances.values()) == pytest.approx(1, abs=0.05)  # the unknown and the end mark have the rest
        for top_k in (1, 3):
            best = sorted(chances, key=chances.__getitem__)[-top_k:]
            assert {model.generate(begin, length=1, top_k=top_k, seed=seed) for seed in range(12)} <= set(best)


def test_a_search_sees_the_weighted_mean_of_both(interpolated):
    model = api.load(interpolated / "fixed").bundle
    batch = Batch({}, None, torch.tensor([0]))
    members = model.interpolation.members(Member(model.model.head, model.encode(batch), batch))
    with torch.inference_mode():
        (network,), (ngram,), (both,) = (
            decoder.step(torch.tensor([BOS]), decoder.begin())[0].exp()
            for decoder in (Ensemble(members[:1]), Ensemble(members[1:]), Ensemble(members))
        )
    assert torch.allclose(both, 0.7 * network + 0.3 * ngram, atol=1e-6)
    assert not torch.allclose(both, (network + ngram) / 2, atol=1e-3)


def test_an_ensemble_and_dynamic_evaluation_keep_the_ngram_model(interpolated):
    text, (a, b) = "the cat lay on a mat.\n" * 5, (api.load(interpolated / n).bundle for n in ("auto", "fixed"))
    each = [token_logprobs([one], [text])[0][1].exp() for one in (a, b)]
    both = token_logprobs([a, b], [text])[0][1].exp()
    assert torch.allclose(both, (each[0] + each[1]) / 2)
    still = token_logprobs([b], [text], dynamic=1e-12)[0][1].exp()
    assert torch.allclose(still, each[1], atol=1e-4)


def test_the_ngram_model_travels_with_the_bundle_and_is_missed_if_it_is_lost(interpolated, tmp_path):
    model = api.load(interpolated / "fixed")
    model.save(tmp_path / "saved")
    said = model.score(["the cat"])[0].score
    assert api.load(tmp_path / "saved").score(["the cat"])[0].score == said
    assert windlass("quantise", tmp_path / "saved", "--out", tmp_path / "small").code == 0
    assert api.load(tmp_path / "small").bundle.interpolation.weight == 0.3
    (tmp_path / "small" / "ngram.safetensors").write_bytes(
        (interpolated / "fixed" / "baseline.safetensors").read_bytes()
    )
    assert "ngram.safetensors: damaged" in refused("score", tmp_path / "small", interpolated / "test.txt")
    (tmp_path / "saved" / "ngram.safetensors").unlink()
    assert "no such file, and the model is interpolated" in refused(
        "score", tmp_path / "saved", interpolated / "test.txt"
    )


def test_a_resumed_run_may_change_weight_and_order_of_the_ngram_model(interpolated, tmp_path):
    shutil.copytree(interpolated / "fixed", tmp_path / "model")
    for more, order, weight in ((("ngrams=4",), 4, 0.3), (("ngram_weight=0",), None, None)):
        flags = [part for one in more for part in ("--set", one)]
        assert windlass("train", "--resume", "--out", tmp_path / "model", *flags).code == 0
        both = api.load(tmp_path / "model").bundle.interpolation
        assert (both and both.ngram.order, both and both.weight) == (order, weight)


def test_an_ngram_model_that_would_gain_little_is_left_out_and_this_is_said():
    said: list[str] = []
    text = "".join(random.Random(3).choices("abc", k=4000))
    dev, model = "".join(random.Random(4).choices("abc", k=400)), tiny_lm()
    with torch.no_grad():  # as good as it can be: letters at random
        for weight in model.model.parameters():
            weight.zero_()
        model.model.head.output.bias[:4] = -9.0
    ngram = KneserNey.fit([model.sides.tokenizer.encode(text)], len(model.sides.tokenizer), 3)
    assert interpolate(model, ngram, [dev], said.append) is model
    assert said[0].startswith("not interpolated with the 3-gram, which would gain little (ngram_weight 0.")
    wanted = replace(model, recipe=model.recipe.model_copy(update={"ngram_weight": 0.2}))
    assert interpolate(wanted, ngram, [dev], said.append).interpolation.weight == 0.2
    alone = replace(model, recipe=model.recipe.model_copy(update={"ngram_weight": 0}))
    assert interpolate(alone, ngram, [text], said.append) is alone
    assert len(said) == 2
