"""Dialogs and summaries on the command line."""

from __future__ import annotations

import json

import pytest

from command import refused, windlass

SIZES = [
    "model.encoder.embedding.size=8", "model.encoder.words.size=8", "model.encoder.sentences.size=8",
    "model.encoder.words.pool=max", "model.decoder.embedding.size=8", "model.decoder.size=8",
    "model.decoder.readout.size=8", "source.tokens.min_count=1", "target.tokens.min_count=1",
    "train.epochs=1", "train.schedule.warmup=1", "train.threads=1", "train.processes=1",
]  # fmt: skip
TINY = [argument for part in SIZES for argument in ("--set", part)]


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """A file of dialogs, and a model that has hardly learned from it."""
    folder = tmp_path_factory.mktemp("talk")
    file = folder / "talk.jsonl"
    turns = [["U", "A table, please."], ["S", "For how many?"], ["U", "Two."], ["S", "Done!"]]
    file.write_text(
        "".join(json.dumps({"turns": turns[: 2 + 2 * (n % 2)]}) + "\n" for n in range(12)), encoding="utf-8"
    )
    ran = windlass("train", "--task", "reply", file, "--set", "data.speaker=S", "--out", folder / "model", *TINY)
    assert ran.code == 0, ran.err
    return file, folder / "model", ran


def test_a_dialog_model_is_trained_evaluated_and_asked(talk, tmp_path):
    file, model, ran = talk
    assert "perplexity" in ran.err
    ran = windlass("evaluate", model, file, "--json")
    content = json.loads(ran.out)
    assert set(content["metrics"]) == {"perplexity", "bleu", "distinct_1", "distinct_2"}
    assert content["examples"] == 18
    assert "perplexity" not in content["baseline"]
    asked = windlass("predict", model, "--json", stdin=b"A table, please.\tFor how many?\tTwo.\n")
    found = json.loads(asked.out)
    assert found["places"]["names"] == ["A", "table", ",", "please", ".", "For", "how", "many", "?", "Two", "."]
    assert windlass("score", model, file).out.count("\n") == 18
    assert windlass("explain", model, "A table.\tFor how many?\tTwo.", "--out", tmp_path / "look.html").code == 0


def test_chat_replies_to_every_line_resets_and_quits(talk):
    _, model, _ = talk
    ran = windlass(
        "chat", model, stdin=b"A table, please.\n\nTwo.\n/reset\nA table, please.\n/what\n/quit\nnot heard\n"
    )
    assert ran.code == 0, ran.err
    first, _, again = ran.out.splitlines()
    assert first == again  # what was said before the reset is forgotten
    assert "new dialog" in ran.err
    assert "unknown command /what: use /reset or /quit" in ran.err
    assert windlass("chat", model, stdin=b"caf\xe9 ?\n").code == 0  # not UTF-8: unknown, and no traceback
    sampled = [windlass("chat", model, "--search", "sample", "--seed", "3", stdin=b"Two.\n").out for _ in range(2)]
    assert sampled[0] == sampled[1]


def test_chat_has_the_dialog_in_mind(talk, monkeypatch):
    from windlass.inference import predict as module

    _, model, _ = talk
    seen = []
    real = module.predict
    monkeypatch.setattr(
        module, "predict", lambda b, sources, *rest, **more: seen.extend(sources) or real(b, sources, *rest, **more)
    )
    ran = windlass("chat", model, stdin=b"A table, please.\nTwo.\n")
    reply = ran.out.splitlines()[0] or "..."
    assert seen == [("A table, please.",), ("A table, please.", reply, "Two.")]


def test_what_cannot_talk_is_refused(talk, tmp_path):
    file, _, _ = talk
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{w}\t{w[::-1]}\n" for w in ("ab", "cd", "ef", "gh")))
    ran = windlass("train", pairs, "--out", tmp_path / "other", "--set", "train.epochs=1", "--set", "train.processes=1")
    assert ran.code == 0, ran.err
    assert "not for dialogs" in refused("chat", tmp_path / "other")
    assert "says nothing" in refused(
        "train", "--task", "reply", file, "--set", "data.speaker=X", "--out", tmp_path / "third", *TINY
    )
    assert windlass("doctor", file, "--task", "reply").code == 0


def test_a_headline_is_trained_and_written(tmp_path):
    file = tmp_path / "news.jsonl"
    rows = [
        {"text": f"On Monday {n} met the mayor.", "title": f"{n} met mayor"} for n in ("Ann", "Bob", "Eve", "Tim")
    ] * 3
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    small = [
        "model.encoder.size=8", "model.decoder.size=8", "model.tie=none", "train.epochs=1", "train.schedule.warmup=1",
        "train.threads=1", "train.processes=1", "lead=2",
    ]  # fmt: skip
    over = [argument for part in small for argument in ("--set", part)]
    columns = ["--source", "text", "--target", "title"]
    ran = windlass("train", "--task", "summarise", file, *columns, "--out", tmp_path / "model", *over)
    assert ran.code == 0, ran.err
    content = json.loads(windlass("evaluate", tmp_path / "model", file, "--json").out)
    assert set(content["metrics"]) == {"rouge_1", "rouge_2", "rouge_l"}
    asked = windlass("predict", tmp_path / "model", "--nbest", "2", stdin="On Monday Žižek met Öz.\n".encode())
    assert asked.code == 0
    assert "never seen" in asked.err
