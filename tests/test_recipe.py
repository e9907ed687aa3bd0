"""Recipes go to YAML and back, and a slip in one is told by its key."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from windlass.core.errors import RecipeError
from windlass.core.options import Options, members, options_class
from windlass.recipe import Recipe, compose, default, merge, parse, setting
from windlass.recipe.compose import override
from windlass.tasks import TASKS


def unions(owner: type[Options], at: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str, type[Options]]]:
    """Every choice by kind that a recipe offers: where, which kind, and the options of that kind."""
    found = []
    for name, field in owner.model_fields.items():
        annotation = field.annotation
        if inner := options_class(annotation):
            found += unions(inner, (*at, name))
        elif get_args(annotation):
            for kind, options in members(annotation).items():
                found.append(((*at, name), kind, options))
                found += unions(options, (*at, name))
    return found


CHOICES = unions(Recipe)


def test_the_choices_of_a_recipe_are_all_seen():
    places = {".".join(place) for place, _, _ in CHOICES}
    assert places >= {"model.encoder.cell", "model.decoder.context", "model.decoder.context.score", "train.average"}
    assert places >= {"source.tokens", "search", "train.optimiser", "model.decoder.readout", "model.encoder"}


@pytest.mark.parametrize("task", TASKS)
def test_the_recipe_of_a_task_round_trips_and_is_its_own(task):
    recipe = parse(default(task))
    assert recipe.task == task
    assert Recipe.from_yaml(recipe.to_yaml()) == recipe


@given(data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_every_recipe_round_trips(data: st.DataObject):
    content: dict[str, Any] = default(data.draw(st.sampled_from(sorted(TASKS))))
    content["seed"] = data.draw(st.integers(0, 2**31))
    content["data"]["train"] = data.draw(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), max_size=2))
    for _ in range(data.draw(st.integers(1, 5))):
        place, kind, _ = data.draw(st.sampled_from(CHOICES))
        over: Any = kind
        for name in reversed(place):
            over = {name: over}
        content = merge(content, over)
    try:
        recipe = parse(content)
    except RecipeError:
        return  # parts that do not fit together, or a kind that needs more
    assert Recipe.from_yaml(recipe.to_yaml()) == recipe


@pytest.mark.parametrize(("place", "kind", "options"), CHOICES, ids=lambda part: str(part)[:40])
def test_every_kind_can_be_named_and_keeps_its_name(place, kind, options):
    try:
        made = options(kind=kind)
    except ValidationError:
        pytest.skip("needs more than its name")
    assert made.kind == kind
    assert options.model_validate(made.model_dump(mode="json")) == made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train: {epoch: 3}", "train.epoch: unknown key; did you mean 'epochs'?"),
        ("trian: {epochs: 3}", "trian: unknown key; did you mean 'train'?"),
        ("cell: gru\nmodel: {decoder: {cell: gru}}", "cell: unknown key; did you mean model.decoder.cell?"),
        ("model: {cell: gru}\nother: {cell: gru}", "model.cell: unknown key; known: decoder"),
        ("cell: &itself {cell: *itself}", "cell: unknown key; known: "),
        ("model: {encoder: {kind: recurrent, cell: {kind: lstm, siz: 3}}}", "model.encoder.cell.siz: unknown key"),
        (
            "model: {encoder: {kind: recurrent, cell: lstn}}",
            "model.encoder.cell: unknown kind 'lstn'; did you mean 'lstm'?",
        ),
        ("model: {encoder: {cell: gru}}", "model.encoder: needs a kind; known: "),
        ("model: {encoder: 3}", "model.encoder"),
        ("train: 3", "train: holds options of its own, such as train.optimiser, and is not 3"),
        ("seed: x", "seed: input should be a valid integer"),
        ("data: {source: 0}", "data.source: input should be greater than or equal to 1, not 0"),
        ("data: {train: pairs.tsv}", "data.train"),
        ("task: pronounec", "no task 'pronounec': did you mean 'pronounce'?"),
        ("model: {tie: all}", "set vocabulary: joint"),
        ("vocabulary: joint\nsource: {lowercase: true}", "vocabulary: joint needs source and target options"),
        ("[1, 2]", "a recipe is a mapping"),
        ("a: b: c", "not valid YAML"),
    ],
)
def test_a_slip_is_told_in_one_line_by_its_key(text, said):
    with pytest.raises(RecipeError) as told:
        Recipe.from_yaml(text, "r.yaml")
    assert said in str(told.value)
    assert str(told.value).startswith("r.yaml: ")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("cell", "model.encoder.cell or model.decoder.cell"),
        ("model.cell", "model.encoder.cell or model.decoder.cell"),
        ("decoder.cell", "model.decoder"),
        ("train.lr", "train.optimiser.lr"),
    ],
)
def test_a_key_without_its_beginning_is_told_with_it(key, meant):
    with pytest.raises(RecipeError, match=f"unknown key; did you mean {meant}\\?"):
        compose("text", None, [override(key, "gru")])


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"model.head": "ctc"}, "model.head: ctc needs a source, and a language model has none: set model.head: text"),
        (
            {"train.bpe_dropout": 0.1, "target.tokens": "bpe"},
            "train.bpe_dropout needs a source text, and a language model has none: leave it out",
        ),
    ],
)
def test_what_a_language_model_cannot_have_is_told_as_that(over, said):
    with pytest.raises(RecipeError, match=said):
        compose("lm", None, [override(key, value) for key, value in over.items()])


def test_several_slips_are_told_at_once():
    with pytest.raises(RecipeError) as told:
        parse({"train": {"epoch": 3}, "seed": -1})
    assert "train.epoch" in str(told.value)
    assert "seed" in str(told.value)


def test_an_empty_recipe_is_the_default():
    assert Recipe.from_yaml("") == Recipe()


def test_the_last_word_is_the_last_setting(tmp_path):
    (tmp_path / "r.yaml").write_text("train: {epochs: 7}")
    assert compose("text", tmp_path / "r.yaml").train.epochs == 7
    overs = [setting("train.epochs=8"), setting("train.epochs=9")]
    assert compose("text", tmp_path / "r.yaml", overs).train.epochs == 9


def test_another_kind_brings_its_own_options_and_drops_the_old():
    made = compose("pronounce", None, [setting("train.schedule=plateau")])
    assert made.train.schedule.model_dump() == type(made.train.schedule)().model_dump()
    same = compose("pronounce", None, [setting("train.schedule={kind: cosine, minimum: 0.00001}")])
    assert same.train.schedule.warmup == compose("pronounce", None).train.schedule.warmup


def test_a_recipe_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "r.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="not UTF-8"):
        compose(None, tmp_path / "r.yaml")
    with pytest.raises(RecipeError, match="cannot read the recipe"):
        compose(None, tmp_path)


READS = {"kind": "attention", "query": "current", "links": "reading"}


def test_a_figure_to_choose_by_must_be_one_there_is():
    assert Recipe(task="translate", choose_by="chrf").choose_by == "chrf"
    with pytest.raises(RecipeError, match="choose_by: translate has no metric 'chrff': did you mean 'chrf'"):
        parse({"task": "translate", "choose_by": "chrff"})
    with pytest.raises(RecipeError, match="links: reading is for gold links"):
        parse({"model": {"decoder": {"context": READS, "readout": "deep"}}})
    with pytest.raises(RecipeError, match="links: reading needs query: current"):
        parse({"model": {"decoder": {"context": READS | {"query": "previous"}}}, "data": {"alignment": 3}})
    with pytest.raises(RecipeError, match="choose_by: aer needs gold links"):
        parse({"task": "translate", "choose_by": "aer"})


@pytest.mark.parametrize(
    ("task", "settings", "encoder", "decoder"),
    [
        ("translate", [], "attention", "transformer"),
        ("translate", ["model.decoder.layers=2"], "attention", "transformer"),
        ("translate", ["model.decoder=recurrent"], "recurrent", "recurrent"),
        ("translate", ["model.decoder=recurrent", "model.decoder.size=64"], "recurrent", "recurrent"),
        ("translate", ["model.decoder.cell=lstm"], "recurrent", "recurrent"),
        ("translate", ["model.decoder.context=summary"], "recurrent", "recurrent"),
        ("pronounce", [], "recurrent", None),
        ("pronounce", ["model.head=text"], "recurrent", "recurrent"),
        ("pronounce", ["model.decoder.cell=gru"], "recurrent", "recurrent"),
        ("pronounce", ["model.decoder=transformer"], "recurrent", "transformer"),
        ("transcribe", [], "pyramid", None),
        ("transcribe", ["model.head=text"], "pyramid", "recurrent"),
        ("transcribe", ["model.decoder.size=64"], "pyramid", "recurrent"),
        ("transcribe", ["model.decoder=transformer"], "pyramid", "transformer"),
    ],
)
def test_a_decoder_that_is_asked_for_has_its_own_recipe(
    task: str, settings: list[str], encoder: str, decoder: str | None
) -> None:
    recipe = compose(task, None, [setting(text) for text in settings])
    assert recipe.model.encoder.kind == encoder
    assert getattr(recipe.model.decoder, "kind", None) == decoder
    assert (recipe.model.head.kind == "ctc") == (decoder is None)


def test_speech_with_a_decoder_keeps_the_coverage_of_its_own_recipe() -> None:
    recipe = compose("transcribe", None, [setting("model.head=text")])
    assert recipe.model.model_dump()["decoder"]["context"]["score"]["coverage"]
    assert recipe.loss.label_smoothing == 0.1


def test_a_loss_on_attention_without_attention_says_how_to_leave_it_out() -> None:
    without = {"model": {"head": "ctc", "decoder": None, "tie": "none"}, "loss": {"label_smoothing": 0.0}}
    with pytest.raises(RecipeError, match=r"else set loss\.coverage: 0"):
        compose("summarise", None, [without])


def test_the_recurrent_recipe_of_a_task_keeps_its_tokens_and_search() -> None:
    one, other = compose("translate", None), compose("translate", None, [setting("model.decoder=recurrent")])
    assert (one.source, one.target, one.search, one.loss) == (other.source, other.target, other.search, other.loss)
    assert (other.model.encoder.size, other.model.decoder.size, other.train.epochs) == (256, 512, 13)
