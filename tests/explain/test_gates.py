"""Gates and states of units are those of the step, in the order of the text; units that follow events are found."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from command import refused, windlass
from windlass.bundle import Bundle
from windlass.core.errors import WindlassError
from windlass.explain.coloured import Row, draw_rows
from windlass.explain.gates import Trace, gate_rows, language_traces, traces
from windlass.explain.subjects import read_subjects
from windlass.explain.units import events, follow, units
from windlass.nn import fast
from windlass.nn.cells import CellOptions
from windlass.nn.fast.scan import positive
from windlass.nn.recording import recorded
from windlass.nn.recurrence import Stack, StackOptions

BUNDLES = Path(__file__).parent.parent / "fixtures" / "bundles"


def cell(**options):
    made = TypeAdapter(CellOptions).validate_python(options).build(3, 4).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


def step_of(made):
    """A state, the state after a step, the gates of the step and its projected input."""
    state = tuple(torch.randn(2, 4).double() for _ in range(made.parts))
    x = made.project(torch.randn(2, 3).double())
    return state, made.step(x, state), made.gates(x, state), x


@pytest.mark.parametrize("options", [{}, {"peepholes": True}, {"output": "sigmoid"}])
def test_the_gates_of_an_lstm_make_its_step(options):
    made = cell(kind="lstm", **options)
    (h, c), (h_new, c_new), gates, x = step_of(made)
    candidate = torch.tanh(x + h @ made.weight_h.T)[:, 12:]
    assert torch.allclose(c_new, gates["forget"] * c + gates["input"] * candidate)
    assert torch.allclose(h_new, gates["output"] * made.output(c_new))


@pytest.mark.parametrize("reset", ["before", "after"])
def test_the_gates_of_a_gru_make_its_step(reset):
    made = cell(kind="gru", reset=reset)
    (h,), (h_new,), gates, x = step_of(made)
    u, r, z = made.weight_h[8:], gates["reset"], gates["update"]
    recurrent = (r * h) @ u.T if reset == "before" else r * (h @ u.T + made.bias_h)
    assert torch.allclose(h_new, z * h + (1 - z) * torch.tanh(x[:, 8:] + recurrent))


def test_the_gates_of_cells_that_train_in_parallel_make_their_steps():
    made = cell(kind="min_gru")
    (h,), (h_new,), gates, x = step_of(made)
    assert torch.allclose(h_new, torch.lerp(h, positive(x[:, 4:]), gates["update"]))
    made = cell(kind="sru")
    (_, c), (_, c_new), gates, x = step_of(made)
    assert torch.allclose(c_new, torch.lerp(x[:, 8:12], c, gates["forget"]))
    made = cell(kind="slstm")
    _, (h_new, mean, _), gates, _ = step_of(made)
    assert torch.allclose(h_new, gates["output"] * mean)
    made = cell(kind="mlstm", heads=2)
    *_, gates, _ = step_of(made)
    assert gates["forget"].shape == gates["output"].shape == (2, 4)
    assert torch.equal(gates["forget"][:, 0], gates["forget"][:, 1])  # one for a head


def test_a_gated_convolution_has_a_gate_and_a_vanilla_cell_none():
    made = cell(kind="convolution")
    (_, *pending), (h_new, *_), gates, x = step_of(made)
    sums = x[:, :8] + torch.cat(pending[:2], dim=1) + made.constant
    assert torch.allclose(h_new, sums[:, :4] * gates["gate"])
    assert step_of(cell(kind="rnn"))[2] == {}


def test_watching_changes_nothing_and_ends():
    stack = Stack(3, StackOptions(cell="lstm", size=4, layers=2), bidirectional=True)
    x = torch.randn(1, 5, 3)
    with torch.no_grad():
        before = stack(x)[0]
        with recorded(stack) as steps:
            watched = stack(x)[0]
            assert not fast.enabled()
    assert fast.enabled()
    assert torch.allclose(before, watched, atol=1e-6)
    assert {name: len(each) for name, each in steps.items()} == {
        "cells.0": 5, "cells.1": 5, "backward_cells.0": 5, "backward_cells.1": 5
    }  # fmt: skip
    assert "step" not in stack.cells[0].__dict__
    last = torch.stack([states["hidden"][0] for states, _ in steps["cells.1"]])
    assert torch.allclose(watched[0, :, :4], last)


def test_traces_are_in_the_order_of_the_text_in_both_directions_and_on_both_sides():
    bundle = Bundle.load(BUNDLES / "pronounce")
    found = {trace.layer: trace for trace in traces(bundle, "keba")}
    assert set(found) == {"encoder 1", "encoder 1 backward", "decoder 1"}
    assert found["encoder 1"].tokens == ("k", "e", "b", "a", "</s>")
    assert found["decoder 1"].tokens[0] == "<s>"
    batch = bundle.sides.collate([bundle.sides.encode("keba")], [0])
    with torch.no_grad():
        states = bundle.model.encode(batch).states[0]
    both = torch.cat([found[name].states["hidden"] for name in ("encoder 1", "encoder 1 backward")], dim=1)
    assert torch.allclose(states, both, atol=1e-5)
    forced = {trace.layer: trace for trace in traces(bundle, "keba", target="k")}
    assert len(forced["decoder 1"].tokens) == 2


@pytest.mark.parametrize(
    ("name", "text", "layers"),
    [
        ("lm", "abc", {"decoder 1"}),
        ("prefix", "ab", {"decoder 1"}),
        ("tag", "a b", {"encoder 1", "encoder 1 backward"}),
        ("entail", ("a b c", "b a"), {"encoder compare 1", "encoder compare 1 backward"}),
        ("classify-document", "A b. C d.", {"encoder words 1", "encoder sentences 1", "encoder sentences 1 backward"}),
    ],
)
def test_every_kind_of_recurrent_model_has_traces(name, text, layers):
    found = traces(Bundle.load(BUNDLES / name), text)
    assert layers <= {trace.layer for trace in found}
    for trace in found:
        assert all(len(values) == len(trace.tokens) for values in (*trace.states.values(), *trace.gates.values()))


def test_words_of_a_document_have_the_states_that_the_document_has():
    bundle, text = Bundle.load(BUNDLES / "classify-document"), ("A b c.", "C d.", "E f g h i j k.")
    found = {trace.layer: trace for trace in traces(bundle, text)}
    encoder = bundle.model.encoder
    encoder.keep(["words"])
    batch = bundle.sides.collate([bundle.sides.encode(text)], [0])
    with torch.no_grad():
        words = encoder(batch).parts["words"]
    both = torch.cat([found[f"encoder words 1{way}"].states["hidden"] for way in ("", " backward")], dim=1)
    assert found["encoder words 1"].tokens == (*"Abc.", *"Cd.", *"Efghijk.")
    assert torch.allclose(words.states[words.mask], both, atol=1e-5)


def test_a_model_without_recurrent_layers_is_told_so():
    with pytest.raises(WindlassError, match="no recurrent layer"):
        traces(Bundle.load(BUNDLES / "classify"), "a b")


def test_both_texts_of_a_pair_are_read_from_their_own_ends():
    bundle = Bundle.load(BUNDLES / "entail")
    batch = bundle.sides.collate([bundle.sides.encode(bundle.sides.read(("a b c", "b a")))], [0])
    with torch.no_grad():
        memory = bundle.model.encode(batch)
    found = {trace.layer: trace.states["hidden"] for trace in traces(bundle, ("a b c", "b a"))}
    both = torch.cat([found["encoder compare 1"], found["encoder compare 1 backward"]], dim=1)
    assert torch.allclose(torch.cat([memory.states[0], memory.parts["second"].states[0]]), both, atol=1e-5)


def test_events_are_those_of_the_last_letter_of_a_token():
    found = events(list('He "so (x)\n\nA b'))
    assert "".join(str(int(v)) for v in found["inside quotes"]) == "000111111110000"[: len('He "so (x)') + 5]
    assert found["inside brackets"].tolist() == [0] * 7 + [1, 1] + [0] * 6
    assert found["place in the line"].tolist() == [*range(1, 11), 0, 0, 1, 2, 3]
    assert found["place in the word"].tolist() == [1, 2, 0, 0, 1, 2, 0, 0, 1, 0, 0, 0, 1, 0, 1]
    assert found["end of a word: a space is next"].tolist() == [0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1]
    assert events(["Two", "Words"], spaced=True)["capital letter"].tolist() == [0, 0]
    assert events(["Two", "Words"], spaced=True)["place in the word"].tolist() == [3, 5]


def test_a_unit_is_chosen_on_one_half_and_judged_on_the_other():
    random.seed(1)
    event = np.array([float(random.random() < 0.5) for _ in range(400)])
    noise = torch.randn(400, 6, generator=torch.Generator().manual_seed(1)) * 0.1
    states = noise.clone()
    states[:200, 2] += torch.from_numpy(event[:200])  # follows it in the first half only
    states[:, 4] += 0.15 * torch.from_numpy(event)
    (first,) = follow([Trace("encoder 1", ("a",) * 400, {"hidden": states}, {})], [{"x": event}])
    assert (first.unit, first.correlation > 0.9, abs(first.held_out) < 0.3) == (3, True, True)
    two = follow([Trace("encoder 1", ("a",) * 400, {"hidden": states}, {})], [{"x": event}], best=2)
    assert [one.unit for one in two] == [5, 3]  # the held-out half ranks


def test_a_planted_counter_is_found():
    bundle = Bundle.load(BUNDLES / "lm")
    text = "".join(random.Random(1).choices("ab ", k=4000))
    found, traced = units(bundle, [text])
    assert {"space", "place in the word"} <= {one.event for one in found}
    one = next(one for one in found if one.event == "space")
    state = traced[0].bounded[:, one.unit - 1].numpy()[2000:]
    assert one.held_out == pytest.approx(np.corrcoef(state, [c == " " for c in text[2000:]])[0, 1], abs=1e-6)


def test_a_long_text_is_read_in_parts_of_which_the_user_is_told(monkeypatch):
    bundle, told = Bundle.load(BUNDLES / "lm"), []
    text = "".join(random.Random(1).choices("ab ", k=1000))

    def track(numbers, count, what):
        told.append((len(numbers), count, what))
        return numbers

    monkeypatch.setattr("windlass.explain.units._BURN_IN", 100)
    _, traced = units(bundle, [text], track=track)
    assert told == [(5, 5, "reading 1,000 tokens")]  # 2 rows of 500, the second after 100 more, and the end
    whole = language_traces(bundle, text)
    assert len(traced) == len(whole)
    for one, other in zip(traced, whole, strict=True):
        assert torch.allclose(one.states["hidden"][:500], other.states["hidden"][:500], atol=1e-5)
    units(bundle, ["ab " * 40, "b a" * 40], track=track)
    assert told[1:] == [(2, 2, "reading the texts")]


@pytest.mark.parametrize("suffix", [".png", ".svg", ".html", ".json"])
def test_rows_are_drawn_in_every_form(tmp_path, suffix):
    row = Row("unit <1>", ("a", " ", "\n", "कि"), [0.5, -1.0, 0.0, 1.0], {"forget": [0.0, 0.5, 1.0, 0.25]})
    path = draw_rows([row], tmp_path / f"x{suffix}")
    if suffix == ".html":
        page = path.read_text(encoding="utf-8")
        assert 'title="␣: state -1.000, forget 0.50"' in page
        assert "unit &lt;1&gt;" in page
    if suffix == ".json":
        assert json.loads(path.read_text(encoding="utf-8"))[0]["gates"] == {"forget": [0.0, 0.5, 1.0, 0.25]}
    assert path.stat().st_size > 100


def test_a_unit_or_layer_that_is_not_there_is_refused():
    found = traces(Bundle.load(BUNDLES / "lm"), "ab")
    with pytest.raises(WindlassError, match=r"no unit 999 in decoder 1: it has units 1 to \d+"):
        gate_rows(found, [999])
    with pytest.raises(WindlassError, match="no layer 'encoder 9': this model has 'decoder 1'"):
        gate_rows(found, [1], "encoder 9")


def test_the_commands_draw_and_tell(tmp_path):
    out = tmp_path / "look.html"
    ran = windlass("explain", BUNDLES / "lm", "ab ab", "--gates", "--units", "1,2", "--out", out)
    assert ran.code == 0
    assert out.read_text(encoding="utf-8").count("<h2") == 2
    text = tmp_path / "text.txt"
    text.write_text("ab a b" * 400, encoding="utf-8")
    ran = windlass("units", BUNDLES / "lm", text, "--out", tmp_path / "units.png", "--json")
    assert ran.code == 0
    assert {"event", "layer", "unit", "correlation", "held_out"} == set(json.loads(ran.out)[0])
    assert "--gates" in refused("explain", BUNDLES / "lm", "ab", "--units", "1", "--out", out)
    assert "numbers" in refused("explain", BUNDLES / "lm", "ab", "--gates", "--units", "x", "--out", out)


def test_the_number_of_the_subject_is_read_from_a_treebank(tmp_path):
    rows = [
        ("1-2", "it's", "_", "_", "_", "SpaceAfter=No"), ("1", "it", "Number=Sing", "2", "nsubj", "_"),
        ("2", "'s", "_", "0", "root", "_"), ("3", "so", "_", "2", "advmod", "SpaceAfter=No"),
    ]  # fmt: skip
    lines = [f"{n}\t{form}\t_\t_\t_\t{feats}\t{head}\t{rel}\t_\t{misc}" for n, form, feats, head, rel, misc in rows]
    plural = [
        "1\tab\t_\t_\t_\tCase=Nom|Number=Plur\t3\tnsubj:pass\t_\t_",
        "2\tba\t_",
        "3\taa\t_\t_\t_\t_\t0\troot\t_\t_",
    ]
    file = tmp_path / "a.conllu"
    file.write_text("\n".join([*lines, "", *plural, "", ""]) * 60, encoding="utf-8")
    first, second = read_subjects(str(file))[:2]
    assert first[0] == "it 's so"
    assert second[0] == "ab ba aa"
    np.testing.assert_equal(first[1], [np.nan, 0, np.nan, np.nan, np.nan, np.nan])
    np.testing.assert_equal(second[1], [np.nan, 1, 1, 1, np.nan, np.nan])
    happening = events(list("ab ba\naa"), False, second[1])["number of the subject"]
    np.testing.assert_equal(happening, [np.nan, 1, 1, 1, 1, 1, np.nan, np.nan])
    ran = windlass("units", BUNDLES / "lm", file, "--json")
    assert ran.code == 0
    assert "number of the subject" in {one["event"] for one in json.loads(ran.out)}
    file.write_text("1\tab\t_\tX\n\n", encoding="utf-8")
    assert "no subject with a number" in refused("units", BUNDLES / "lm", file)


def test_a_text_read_in_rows_has_the_states_of_the_text_read_at_once(monkeypatch):
    bundle, text = Bundle.load(BUNDLES / "lm"), "".join(random.Random(2).choices("ab ", k=900))
    (whole,) = traces(bundle, text)
    monkeypatch.setattr("windlass.explain.units._BURN_IN", 50)
    (found, (parts,)) = units(bundle, [text])
    assert found
    assert parts.tokens == whole.tokens
    assert torch.allclose(parts.bounded, whole.bounded, atol=0.02)
    assert not torch.allclose(parts.bounded[50:], whole.bounded[:-50], atol=0.02)
