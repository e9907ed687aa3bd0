"""A short run of the fuzzer, and that it would tell."""

from __future__ import annotations

from pathlib import Path

import kinds
import pytest
import run
from kinds import KINDS, NAMES, Scratch, parse, tiny_recipe, use

from windlass.core.errors import DataError
from windlass.tasks import TASKS

CASES = {"damaged": 80, "crafted": 100, "recipes": 100, "files": 200}


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_run_finds_nothing(kind: str) -> None:
    outcomes, failures = run.fuzz([kind], seed=0, cases=CASES[kind])
    assert not failures, failures[0].render()
    assert outcomes.total() == CASES[kind]
    assert outcomes[kind, "works"] > 0
    assert outcomes[kind, "refused"] > 0


@pytest.mark.parametrize("task", sorted(TASKS))
def test_what_is_not_changed_works(task: str) -> None:
    kinds._run(parse(tiny_recipe(task)))


def test_every_bundle_works_before_it_is_changed(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    for name in NAMES:
        folder = scratch.bundle(name)
        (folder / "recipe.yaml").write_text("broken")
        scratch.restore(name)
        assert use(folder) == scratch.answers[name]


def test_a_case_is_the_same_again(tmp_path: Path) -> None:
    def seen(chance, scratch):
        drawn.append(chance.random())

    drawn: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KINDS, "files", seen)
        run.fuzz(["files"], seed=3, cases=3)
        run.run_case("files", 3, 2, Scratch(tmp_path))
    assert drawn[2] == drawn[3] != drawn[1]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (IndexError("tuple index"), "IndexError: tuple index"),
        (DataError(" "), "not one clear line"),
        (DataError("see https://errors.pydantic.dev"), "not one clear line"),
        (kinds.WrongError("believed"), "believed"),
    ],
)
def test_a_defect_is_told_with_how_to_see_it_again(monkeypatch, error: Exception, said: str) -> None:
    def broken(chance, scratch):
        raise error

    monkeypatch.setitem(KINDS, "files", broken)
    outcomes, failures = run.fuzz(["files"], seed=7, cases=2)
    assert outcomes["files", "failed"] == len(failures) == 2
    assert said in failures[1].render()
    assert "make fuzz SEED=7 KIND=files CASE=1" in failures[1].render()


def test_a_case_without_end_is_a_defect(monkeypatch) -> None:
    def endless(chance, scratch):
        while True:
            pass

    monkeypatch.setattr(run, "LIMIT", 1)
    monkeypatch.setitem(KINDS, "files", endless)
    assert "no answer within 1 s" in run.fuzz(["files"], seed=1, cases=1)[1][0].error
