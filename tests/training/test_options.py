from __future__ import annotations

import pytest
from pydantic import ValidationError

from windlass.recipe.train import TrainOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimiser": {"kind": "sgd", "nesterov": True}}, "has no effect without momentum"),
        ({"optimiser": {"kind": "adamw", "weight_decay": 0}}, "greater than 0"),
        ({"optimiser": {"kind": "sgd", "betas": [0.9, 0.99]}}, "betas"),
        ({"optimiser": {"kind": "adam", "betas": [0.9, 1.0]}}, "less than 1"),
        ({"schedule": {"kind": "constant", "gamma": 0.5}}, "gamma"),
        ({"schedule": {"kind": "plateau", "factor": 1.0}}, "less than 1"),
        ({"schedule": {"kind": "exponential", "gamma": 1.0}}, "less than 1"),
        ({"schedule": {"kind": "inverse_sqrt", "warmup": 0}}, "greater than or equal to 1"),
        ({"schedule": {"kind": "plateau", "patience": 5}, "patience": 5}, "has no effect"),
        ({"schedule": {"kind": "cosine", "minimum": 0.1}}, "not below optimiser.lr"),
        ({"schedule": {"kind": "plateau", "minimum": 0.1}}, "not below optimiser.lr"),
        ({"average": {"kind": "checkpoints", "count": 1}}, "greater than or equal to 2"),
        ({"average": {"kind": "ema", "decay": 1.0}}, "less than 1"),
        ({"sampling": {"kind": "constant", "chance": 0}}, "greater than 0"),
        ({"sampling": {"kind": "linear", "first": 0.2, "last": 0.2}}, "use kind constant"),
        ({"epoch": 3}, "epoch"),
        ({"clip": 0}, "greater than 0"),
    ],
)
def test_an_option_that_changes_nothing_is_an_error(options, message):
    with pytest.raises(ValidationError, match=message):
        TrainOptions.model_validate(options)


def test_plateau_may_be_as_patient_as_it_likes_where_nothing_stops_the_run():
    TrainOptions.model_validate({"schedule": {"kind": "plateau", "patience": 5}, "patience": 0})


def test_options_survive_a_round_trip():
    options = TrainOptions.model_validate(
        {"optimiser": "adamw", "schedule": "cosine", "average": "ema", "sampling": "linear", "clip": None}
    )
    assert TrainOptions.model_validate_json(options.model_dump_json()) == options
