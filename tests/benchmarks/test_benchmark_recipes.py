"""The benchmarks that train say what they train over the tasks' recipes; when those change, they still fit."""

from __future__ import annotations

import importlib
import json
import shlex
import sys
from pathlib import Path

import pytest

from windlass.recipe import compose, setting

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
architectures, claims, common, context_bottleneck = map(
    importlib.import_module, ("architectures", "claims", "common", "context_bottleneck")
)
sys.path.remove(str(BENCHMARKS))  # its names are not for other tests


@pytest.mark.parametrize(
    ("name", "arm"), [(name, arm) for name, claim in claims.CLAIMS.items() for arm in claim.arms], ids=str
)
def test_every_arm_of_a_claim_is_a_recipe_of_its_own(name: str, arm: str) -> None:
    claim = claims.CLAIMS[name]
    made = compose(claim.task, None, [*map(setting, [*claim.common, *claim.arms[arm]])])
    usual = compose(claim.task, None, [*map(setting, claim.common)])
    assert (made == usual) == (not claim.arms[arm])


@pytest.mark.parametrize("task", list(architectures.MINUTES))
@pytest.mark.parametrize("name", list(architectures.ARCHITECTURES))
def test_every_architecture_is_a_recipe(name: str, task: str) -> None:
    if not architectures.possible(name, task):
        pytest.skip(f"no {name} for {task}")
    recipe = architectures.recipe_of(name, task, 128, [{}, {"seed": 2}])
    decoder, encoder = recipe.model.decoder, recipe.model.encoder
    assert recipe.seed == 2
    assert (recipe.model.head.kind == "ctc") == (name == "ctc") == (decoder is None)
    if decoder is not None:
        assert (decoder.kind == "transformer") == ("transformer" in name)
    if task != "lm":
        assert (encoder.kind == "recurrent") == (name != "transformer")
        rates = {part.dropout for part in (encoder, decoder) if part is not None}
        assert rates == {architectures.DROPOUT[task]}


def test_the_contexts_of_the_decks_differ_in_the_decoder_alone() -> None:
    made = {
        name: compose("translate", None, [{"model": {"decoder": over}}, *map(setting, context_bottleneck.SETTINGS)])
        for name, over in context_bottleneck.CONTEXTS.items()
    }
    assert {recipe.model.decoder.context.kind for recipe in made.values()} == {"none", "summary", "attention"}
    assert len({recipe.model.encoder.model_dump_json() for recipe in made.values()}) == 1


def test_the_command_in_a_result_can_be_typed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["benchmarks/translate.py", "--runs", "my runs", "--set", "train.schedule={kind: constant, warmup: 400}"]
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", typed)
    common.report("result", {})
    command = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))["command"]
    assert shlex.split(command) == ["python", *typed]
