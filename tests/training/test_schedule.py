from __future__ import annotations

import math

import pytest

from windlass.recipe.schedule import (
    Constant,
    ConstantSampling,
    Cosine,
    Exponential,
    InverseSigmoidSampling,
    InverseSqrt,
    LinearSampling,
    NoSampling,
    Plateau,
    PlateauState,
)

START = PlateauState()


def rates(schedule, steps, base=0.8, per_epoch=4, total=12, plateau=START):
    return [schedule.rate(base, s, (s - 1) // per_epoch, total, plateau) for s in steps]


def test_constant_stays():
    assert rates(Constant(), [1, 5, 12, 99]) == [0.8] * 4


def test_exponential_falls_once_an_epoch():
    assert rates(Exponential(gamma=0.5), [1, 4, 5, 8, 9]) == pytest.approx([0.8, 0.8, 0.4, 0.4, 0.2])


def test_inverse_sqrt_rises_in_a_line_then_falls_as_a_root():
    assert rates(InverseSqrt(warmup=4), [1, 2, 4, 16, 64]) == pytest.approx([0.2, 0.4, 0.8, 0.4, 0.2])


def test_cosine_goes_from_the_top_to_the_minimum_over_the_whole_run():
    schedule = Cosine(minimum=0.2)
    assert rates(schedule, [1, 7, 13, 20], total=12) == pytest.approx([0.8, 0.5, 0.2, 0.2])
    assert rates(schedule, [4], total=12) == pytest.approx([0.2 + 0.6 * (1 + math.cos(math.pi / 4)) / 2])
    assert rates(schedule, [7], total=24) > rates(schedule, [7], total=12)


def test_cosine_begins_after_its_warmup():
    assert rates(Cosine(warmup=4), [2, 4, 5, 9], total=12) == pytest.approx([0.4, 0.8, 0.8, 0.4])


def test_plateau_falls_by_its_factor_but_not_under_its_minimum():
    schedule = Plateau(factor=0.5, minimum=0.3)
    scales = [1.0, 0.5, 0.25]
    assert [rates(schedule, [3], plateau=PlateauState(s))[0] for s in scales] == pytest.approx([0.8, 0.4, 0.3])


def test_plateau_falls_after_so_many_evaluations_without_a_better_one():
    schedule, state, scales = Plateau(factor=0.5, patience=2), PlateauState(), []
    for better in [True, False, True, False, False, False, False, True, False]:
        state = schedule.evaluated(state, better)
        scales.append(state.scale)
    assert scales == [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25]


def test_other_schedules_do_not_mind_evaluations():
    assert Constant().evaluated(PlateauState(), better=False) == PlateauState()


@pytest.mark.parametrize("kind", [Constant, Plateau, Cosine, Exponential, InverseSqrt])
def test_every_schedule_warms_up_in_a_line_from_zero(kind):
    assert rates(kind(warmup=8), [1, 2, 4, 8], per_epoch=100, total=100) == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_chances_of_scheduled_sampling():
    assert NoSampling().probability(50, 3.0) == 0
    assert ConstantSampling(chance=0.3).probability(50, 3.0) == 0.3
    linear = LinearSampling(first=0.1, last=0.5, epochs=4)
    assert [linear.probability(0, e) for e in (0, 1, 2.5, 4, 9)] == pytest.approx([0.1, 0.2, 0.35, 0.5, 0.5])
    k = 10
    for step in (0, 10, 40):
        expected = 1 - k / (k + math.exp(step / k))
        assert InverseSigmoidSampling(k=k).probability(step, 0) == pytest.approx(expected)
    assert InverseSigmoidSampling(k=1).probability(10**6, 0) == 1.0  # and no overflow
