"""Weights that explode end a run with a word on the loss or the scores, whatever the model does with them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import windlass
from windlass.core.errors import TrainingError

TEXTS = [(f"w{n % 7} w{n % 5} w{n % 3}", f"w{n % 3} w{n % 5}") for n in range(40)]
DATA: dict[str, Any] = {
    "translate": TEXTS,
    "summarise": TEXTS,
    "reply": [((one, other), one) for one, other in TEXTS],
    "pronounce": TEXTS,
    "classify": [(text, str(n % 2)) for n, (text, _) in enumerate(TEXTS)],
    "regress": [(text, str(n)) for n, (text, _) in enumerate(TEXTS)],
    "tag": [(text, "A B C") for text, _ in TEXTS],
    "lm": ["abc abd " * 40] * 4,
}


@pytest.mark.parametrize("rate", [1e3, 1e30])
@pytest.mark.parametrize("task", DATA)
def test_weights_that_explode_end_a_run_with_a_clear_word(task, rate):
    settings = {"train.optimiser.lr": rate, "train.epochs": 2, "train.schedule": "constant", "train.threads": 1}
    with pytest.raises(TrainingError, match=r"lower train\.optimiser\.lr") if rate > 1e9 else suppress(TrainingError):
        windlass.fit(DATA[task], DATA[task][:4], task=task, settings=settings, quiet=True)
