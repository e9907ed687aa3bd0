"""From files to a bundle: the parts of a run that need no training."""

from __future__ import annotations

import pytest
import torch

from windlass.baseline import Baseline, load_baseline, save_baseline
from windlass.bundle import Bundle
from windlass.core.errors import BundleError, DataError, RecipeError, TrainingError
from windlass.core.marks import UNK
from windlass.data.examples import Example, Place
from windlass.data.sides.words import WordsOptions, WordsSource
from windlass.experiment.baselines import choose_baseline
from windlass.experiment.data import as_data, fingerprint, read_data
from windlass.experiment.folder import check_folder
from windlass.experiment.loaders import fit_sides, load_vectors
from windlass.experiment.run import _describe_unknown
from windlass.experiment.vectors import with_vectors
from windlass.recipe import Recipe, compose, parse
from windlass.training.finetune import check_same_model, extend_bundle

PAIRS = [("ab", "xy"), ("ba", "yx"), ("bb", "yy"), ("aa", "xx")]


def examples(*pairs):
    return [Example(s, (t,), None, Place("more.tsv", n)) for n, (s, t) in enumerate(pairs, 1)]


def test_several_files_are_one_training_set_and_dev_is_kept_apart(tmp_path):
    (tmp_path / "a.tsv").write_text("ab\txy\n")
    (tmp_path / "b.tsv").write_text("ba\tyx\n")
    (tmp_path / "d.tsv").write_text("bb\tyy\n")
    files = {"train": [str(tmp_path / "a.tsv"), str(tmp_path / "b.tsv")], "dev": str(tmp_path / "d.tsv")}
    data = read_data(Recipe(data=files))
    assert [e.source for e in data.train] == ["ab", "ba"]
    assert [e.source for e in data.dev] == ["bb"]


def test_the_dev_set_does_not_depend_on_the_seed(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"w{n}\tv{n}\n" for n in range(50)))
    one, two = (read_data(Recipe(seed=seed, data={"train": [str(tmp_path / "a.tsv")]})) for seed in (1, 2))
    assert one.dev == two.dev
    assert len(one.dev) == 5
    assert not {e.source for e in one.train} & {e.source for e in one.dev}


def test_a_fingerprint_tells_other_data_and_another_split():
    marks = {
        fingerprint(as_data(PAIRS, PAIRS[:1], Recipe()), Recipe()),
        fingerprint(as_data(PAIRS, PAIRS[:2], Recipe()), Recipe()),
        fingerprint(as_data(PAIRS[::-1], PAIRS[:1], Recipe()), Recipe()),
        fingerprint(as_data(PAIRS[:3], [PAIRS[3], PAIRS[0]], Recipe()), Recipe()),
    }
    assert len(marks) == 4
    assert fingerprint(as_data(PAIRS, PAIRS[:1], Recipe()), Recipe()) in marks


def test_one_vocabulary_or_two():
    data = as_data(PAIRS, PAIRS[:1], Recipe())
    separate = fit_sides(Recipe(), data.train)
    joint = fit_sides(Recipe(vocabulary="joint"), data.train)
    assert (separate.source.sizes["source"], len(separate.target), len(joint.target)) == (6, 6, 8)
    assert joint.source.vocabulary is joint.tokenizer


def test_unknown_symbols_of_dev_are_told_with_their_side():
    sides = fit_sides(Recipe(), as_data(PAIRS, PAIRS[:1], Recipe()).train)
    said = _describe_unknown(sides, examples(("aq", "xy"), ("qb", "zy"), ("ab", "xy")))
    assert said is not None
    assert "source 'q' (2 examples); target 'z' (1 example)" in said
    assert _describe_unknown(sides, examples(*PAIRS)) is None


def test_new_symbols_get_new_rows_and_the_old_weights_stay():
    data = as_data(PAIRS, PAIRS[:1], Recipe())
    base = Bundle.new(Recipe(), fit_sides(Recipe(), data.train))
    said: list[str] = []
    grown = extend_bundle(base, Recipe(), examples(("aq", "xyz")), said.append)
    assert said[0] == "new symbols: source 'q'; target 'z'"
    assert [text.split(" some")[0] for text in said[1:]] == ["a model forgets"]
    before, after = dict(base.model.named_parameters()), dict(grown.model.named_parameters())
    assert before.keys() == after.keys()
    for name, old in before.items():
        assert torch.equal(after[name][tuple(slice(n) for n in old.shape)], old)
    assert sum(p.numel() for p in after.values()) > sum(p.numel() for p in before.values())


def test_no_new_symbols_change_nothing():
    base = Bundle.new(Recipe(), fit_sides(Recipe(), as_data(PAIRS, PAIRS[:1], Recipe()).train))
    grown = extend_bundle(base, Recipe(), examples(("ab", "xy")), lambda _: None)
    assert grown.sides == base.sides
    pairs = zip(base.model.parameters(), grown.model.parameters(), strict=True)
    assert all(torch.equal(old, new) for old, new in pairs)


def test_dropout_and_training_may_change_but_not_the_network():
    base = compose("text", None)
    change = {"model": {"encoder": {"dropout": 0.1}}, "train": {"epochs": 2}}
    check_same_model(base, compose("text", None, [change]), "it")
    with pytest.raises(RecipeError, match=r"model.decoder.layers: 1 is now 2, but it cannot change it"):
        check_same_model(base, compose("text", None, [{"model": {"decoder": {"layers": 2}}}]), "it")
    with pytest.raises(RecipeError, match="task: text is now summarise"):
        check_same_model(base, parse(base.model_dump(mode="json") | {"task": "summarise"}), "it")


def test_words_are_looked_up_as_written_where_the_file_of_vectors_has_capitals(tmp_path):
    file = tmp_path / "vectors.txt"
    for words, lowercase in ((("Ulm", "cat"), "unknown"), (("ulm", "cat"), True)):
        file.write_text("".join(f"{word} 1 2\n" for word in words), encoding="utf-8")
        recipe = with_vectors(compose("tag", None), str(file))
        assert recipe.source.lowercase == lowercase


def test_a_word_that_is_unknown_as_written_is_looked_up_in_lower_case():
    options = WordsOptions(min_count=1, lowercase="unknown", characters=False)
    source = WordsSource.fit(options, [("Ulm", "cat")])
    found = source.encode(("Ulm", "ulm", "cat", "CAT"))["source"].tolist()
    assert found[1] == UNK != found[0]
    assert found[2] == found[3] != UNK


def test_word_vectors_are_loaded_and_the_match_is_said(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("a 1 2 3\nzzz 4 5 6\n")
    embedding = {"kind": "vectors", "path": str(file), "size": 3}
    recipe = compose("text", None, [{"model": {"tie": "none", "encoder": {"embedding": embedding}}}])
    bundle = Bundle.new(recipe, fit_sides(recipe, as_data(PAIRS, PAIRS[:1], recipe).train))
    said: list[str] = []
    load_vectors(bundle, said.append)
    assert said == [f"source: {file} has vectors for 1 of 2 words (50.0 %)"]
    file.write_text("zzz 4 5 6\n")
    with pytest.raises(DataError, match="has none of the source's words"):
        load_vectors(bundle, said.append)


@pytest.mark.parametrize("task", ["classify", "tag", "classify-document", "entail"])
def test_words_that_only_the_file_has_are_known_by_their_vectors(tmp_path, task):
    file = tmp_path / "vectors.txt"
    file.write_text("the 1 1 1\ncat 1 2 3\nEmu 0 0 0\nemu 4 5 6\nfox 7 8 9\nowl 9 9 9\n")
    embedding = {"kind": "vectors", "path": str(file), "size": 3, "more": 2}
    reader = {"reader": {"embedding": embedding}} if task == "entail" else {"embedding": embedding}
    recipe = compose(task, None, [{"model": {"encoder": reader}}])
    source = {"tag": ("the", "cat"), "entail": ("the cat", "the cat")}.get(task, "the cat")
    target = "A B" if task == "tag" else "A"
    sides = fit_sides(recipe, [Example(source, (target,), None, Place("v.tsv", 1))] * 4)
    words = sides.source.vocabulary
    assert words.symbols == ("cat", "the", "emu", "fox")
    bundle = Bundle.new(recipe, sides)
    said: list[str] = []
    load_vectors(bundle, said.append)
    assert "4 of 4 words" in said[0]
    encoder = bundle.model.encoder
    table = getattr(encoder, "reader", encoder).embedding.table
    assert table[words.encode("fox")[0]].tolist() == [7, 8, 9]
    assert 0 < table[:4].abs().max() < 0.5  # the marks, which no file has, begin near nothing


def test_more_words_are_for_what_is_read(tmp_path):
    more = {"kind": "vectors", "path": "v.txt", "size": 256, "more": 5}
    cases = [
        ({"model": {"tie": "none", "decoder": {"embedding": more}}}, "is never written"),
        (
            {"source": {"tokens": "bpe"}, "model": {"tie": "none", "encoder": {"embedding": more}}},
            "set source.tokens: words",
        ),
    ]
    for over, said in cases:
        with pytest.raises(RecipeError, match=said):
            compose("text", None, [over])
    with pytest.raises(RecipeError, match="set vocabulary: separate"):
        compose("text", None, [{"vocabulary": "joint", "model": {"tie": "none", "encoder": {"embedding": more}}}])


def test_folders(tmp_path):
    check_folder(tmp_path / "new", resume=False)
    check_folder(tmp_path, resume=False)  # empty
    with pytest.raises(TrainingError, match="no run to resume"):
        check_folder(tmp_path, resume=True)
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "data.json").touch()
    check_folder(tmp_path, resume=True)
    with pytest.raises(TrainingError, match="resume it with --resume"):
        check_folder(tmp_path, resume=False)
    (tmp_path / "recipe.yaml").touch()
    with pytest.raises(TrainingError, match=", delete it first with --overwrite, or choose another --out; nothing"):
        check_folder(tmp_path, resume=False)


def test_a_baseline_is_chosen_on_dev_and_never_holds_the_data(tmp_path):
    train = [("ab", "xy"), ("ba", "yx"), ("bbb", "yyy")] * 20
    chosen = choose_baseline(Recipe(), as_data(train, [("aab", "xxy")], Recipe()))
    assert chosen.name == "letter by letter"
    save_baseline(tmp_path, chosen)
    assert load_baseline(tmp_path) == chosen
    assert set(chosen.table) == {"a", "b"}
    (tmp_path / "baseline.json").write_text('{"nam": 3}')
    with pytest.raises(BundleError, match=r"baseline\.json: damaged: no 'name'; restore it, or delete it"):
        load_baseline(tmp_path)
    assert Baseline("copy").predict(["a"]) == ["a"]
