"""What is picked from the data fits the data."""

from __future__ import annotations

import pytest

from windlass import api
from windlass.bundle import Bundle
from windlass.experiment.auto import MIN_ROWS, MIN_STEPS, scale_training, suggest_settings
from windlass.experiment.data import as_data
from windlass.experiment.run import apply_suggestions, run
from windlass.recipe import Recipe, compose, recompose, setting
from windlass.tasks import TASKS
from windlass.training.observe import Observer

LETTERS = [("cat", "tac"), ("horse", "esroh"), ("cow", "woc")]
PHONES = [("cat", "k a t"), ("dog", "d o g"), ("shoe", "ʃ uː")]
SENTENCES = [(f"the man number {n} sees a house", f"der Mann Nummer {n} sieht ein Haus") for n in range(2100)]


class Notes(Observer):
    """Keeps the notes of a run."""

    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def picked(pairs, *settings):
    said: list[str] = []
    recipe = compose("text", None, [setting(text) for text in settings])
    data = as_data(pairs, pairs[:1], recipe)
    return apply_suggestions(recipe, data, [setting(text) for text in settings], said.append), said


@pytest.mark.parametrize(
    ("pairs", "source", "target"),
    [(LETTERS, "characters", "characters"), (PHONES, "characters", "words"), (SENTENCES, "bpe", "bpe")],
)
def test_tokens_fit_the_data(pairs, source, target):
    recipe, said = picked(pairs)
    assert (recipe.source.tokens.kind, recipe.target.tokens.kind) == (source, target)
    assert said[0] == "picked from the data:"


def test_a_head_without_a_decoder_gets_no_size_for_one():
    recipe, _ = picked(LETTERS, "model.head=ctc")
    assert (recipe.model.head.kind, recipe.model.decoder, recipe.model.encoder.size) == ("ctc", None, 128)


def test_few_sentences_are_not_cut_into_pieces():
    assert picked(SENTENCES[:100])[0].source.tokens.kind == "characters"


def test_larger_data_bears_a_larger_network_and_fewer_passes():
    small, large = picked(LETTERS)[0], picked(LETTERS * 1000)[0]
    assert small.model.encoder.size < large.model.encoder.size
    assert small.train.epochs > large.train.epochs


def scaled(task, examples, *settings, tokens=10):
    """The training options of a task on examples of some tokens each, and the reason."""
    options = compose(task, None, [setting(text) for text in settings]).train
    return scale_training(options, examples, lambda batch: -(-examples // max(1, batch // tokens)))


@pytest.mark.parametrize("task", list(TASKS))
@pytest.mark.parametrize("examples", [5, 100, 300, 1000, 2500])
def test_small_data_is_repeated_until_there_are_enough_steps(task, examples):
    options, _ = scaled(task, examples)
    rows = options.batch_tokens // 10
    steps = options.epochs * -(-examples // rows)
    assert steps >= MIN_STEPS
    assert options.schedule.warmup <= max(steps / 4, 1)
    assert rows >= MIN_ROWS or examples < MIN_ROWS
    assert options.auto == ()


@pytest.mark.parametrize("task", list(TASKS))
def test_large_data_has_the_recipes_own_values(task):
    before = compose(task, None).train
    options, reason = scaled(task, 50_000, tokens=60)
    assert options == before.model_copy(update={"auto": ()})
    assert reason is None


def test_what_the_user_set_stays():
    options, reason = scaled("classify", 300, "train.epochs=3", "train.schedule.warmup=20", "train.evaluate_steps=7")
    assert (options.epochs, options.schedule.warmup, options.evaluate_steps) == (3, 20, 7)
    assert options.batch_tokens < 800
    assert "300 examples; else: --epochs, --batch-tokens" in reason
    assert scaled("classify", 300, "train.auto=[]")[0].epochs == 15


def test_a_long_warm_up_of_a_short_run_is_cut_on_large_data_too():
    options, reason = scaled("classify", 5000, "train.epochs=1")
    assert options.schedule.warmup == 6
    assert reason.startswith("a warm-up of 6 steps, not 100, as the run has 63")


def test_a_recipe_file_fixes_what_it_sets(tmp_path):
    short, printed, edited = (tmp_path / name for name in ("short.yaml", "printed.yaml", "edited.yaml"))
    short.write_text("task: tag\ntrain: {epochs: 15, schedule: {warmup: 9}}\n")
    printed.write_text(compose("tag", None).to_yaml())
    edited.write_text(
        compose("tag", None, [setting("train.auto=[epochs, batch_tokens]")]).to_yaml().replace("15", "16")
    )
    assert compose(None, short).train.auto == ("batch_tokens", "evaluate_steps")
    assert compose(None, printed).train.auto == compose("tag", None).train.auto
    assert compose(None, edited).train.auto == ("batch_tokens",)


def test_a_run_on_small_data_says_what_it_changed_and_keeps_it_in_its_recipe(tmp_path):
    small = [setting(text) for text in ("model.encoder.size=4", "model.encoder.embedding.size=4", "train.epochs=2")]
    recipe = compose("classify", None, small)
    pairs = [(f"good {n}", "yes") for n in range(30)] + [(f"bad {n}", "no") for n in range(30)]
    observer = Notes()
    outcome = run(recipe, as_data(pairs, pairs[::7], recipe), tmp_path / "model", observer)
    train = outcome.bundle.recipe.train
    assert (train.epochs, train.auto, train.schedule.warmup) == (2, (), 1)
    assert train.batch_tokens < 800
    assert any(note.startswith(f"about {outcome.fit.steps} steps: 2 epochs in batches of") for note in observer.notes)
    assert Bundle.load(tmp_path / "model").recipe.train == train
    assert not any("warmup" in note for note in observer.notes)
    again = run(recipe, as_data(pairs, pairs[::7], recipe), tmp_path / "model", Observer(), resume=True)  # is finished
    assert (again.bundle.recipe.train, again.fit.steps) == (train, outcome.fit.steps)


def test_the_users_word_is_the_last_and_is_said():
    recipe, said = picked(LETTERS, "train.epochs=3", "source.tokens=graphemes", "seed=5")
    assert (recipe.train.epochs, recipe.source.tokens.kind, recipe.seed) == (3, "graphemes", 5)
    assert said[-1] == "  but as you set it: train.epochs=3, source.tokens=graphemes"


def test_the_length_of_a_run_is_told_once():
    few, many = picked(LETTERS * 100)[1], picked(LETTERS * 2000)[1]
    assert few[-1] == "  128 units per layer, as there are 300 examples"  # its length follows when batches are known
    assert many[-1].startswith("  192 units per layer, 40 epochs, batches of ")


def test_a_finetuned_model_warms_up_for_a_part_of_the_run():
    trained = compose("classify", None, [setting("train.auto=[]"), setting("train.schedule.warmup=16")])
    options, reason = scale_training(recompose(trained, [setting("train.epochs=1")]).train, 50, lambda batch: 5)
    assert (options.schedule.warmup, options.epochs) == (1, 1)
    assert reason.startswith("a warm-up of 1 step, not 16, as the run has 5")
    assert recompose(trained, [setting("train.schedule.warmup=16")]).train.auto == ()


def test_hints_are_python_in_python(capsys):
    pairs = [(f"good film {n}", "yes") for n in range(30)] + [(f"bad film {n}", "no") for n in range(30)]
    small = {"model.encoder.size": 4, "model.encoder.embedding.size": 4, "train.epochs": 1}
    api.fit(pairs, task="classify", settings=small)
    told = capsys.readouterr().err
    assert 'else: settings={"train.epochs": ..., "train.batch_tokens": ...}' in told
    assert "--" not in told


def test_one_label_is_nothing_to_learn(capsys):
    small = {"model.encoder.size": 4, "model.encoder.embedding.size": 4, "train.epochs": 1}
    api.fit([(f"film {n}", "good") for n in range(12)], task="classify", settings=small)
    assert "every target is 'good': there is nothing to learn\n" in capsys.readouterr().err


def test_what_is_picked_makes_a_recipe():
    for over, _ in suggest_settings(as_data(SENTENCES, SENTENCES[:1], Recipe()).train):
        assert compose("text", None, [over])


@pytest.mark.parametrize(
    ("task", "examples", "tokens"), [("classify", 4906, 12), ("entail", 4500, 11), ("tag", 3394, 20)]
)
def test_what_was_published_is_trained_as_it_was(task, examples, tokens):
    options, reason = scaled(task, examples, tokens=tokens)
    assert (options.model_copy(update={"auto": compose(task, None).train.auto}), reason) == (
        compose(task, None).train,
        None,
    )


@pytest.mark.parametrize(("lr", "said"), [(1e-9, True), (0.01, False)])
def test_a_model_below_its_baseline_is_reported(capsys, lr, said):
    small = {"model.encoder.size": 8, "model.encoder.embedding.size": 8, "train.epochs": 30, "train.optimiser.lr": lr}
    pairs = [(f"{word} thing", word) for word in ("red", "blue", "green", "black") for _ in range(20)]
    api.fit(pairs, pairs[::5], "classify", settings=small)
    assert ("worse than its baseline: accuracy" in capsys.readouterr().err) == said
