"""What parts declare, and what the matcher makes of it."""

from __future__ import annotations

from windlass.core.fitting import Equal, Gives, Needs, Offers, Refuses, misfits
from windlass.core.options import Options


class Inner(Options):
    kind: str = "one"
    size: int = 3


class Outer(Options):
    part: Inner = Inner()
    tie: str = "none"
    deep: bool = False


def given(options):
    return {term.feature: term.value for term in options.declare("at") if isinstance(term, Gives)}


def test_settings_are_features_by_their_key_and_choices_by_their_kind():
    found = given(Outer())
    assert found["at.part.size"] == 3
    assert found["at.part: one"] is True
    assert found["at.tie: none"] is True
    assert not found["at.deep"]
    assert found["at.part"] == Inner()


def test_a_setting_that_is_false_is_not_given():
    declared = [*Outer().declare("at"), Needs("at.deep", "set deep"), Refuses("at.deep", "leave deep")]
    assert list(misfits(declared)) == ["set deep"]
    declared = [*Outer(deep=True).declare("at"), *declared[-2:]]
    assert list(misfits(declared)) == ["leave deep"]


def test_one_of_several_features_will_do():
    assert not list(misfits([Gives("b"), Needs(("a", "b"), "no")]))
    assert not list(misfits([Offers(("a", "b"), "unused"), Gives("b"), Needs("b", "no")]))


def test_what_does_not_fit_is_told_in_the_order_of_declaration():
    declared = [Offers("a", "first"), Equal(("x", "y"), "second"), Gives("x", 1), Needs("z", "third")]
    assert list(misfits(declared)) == ["first", "second", "third"]


def test_features_of_parts_that_are_not_there_are_not_looked_at():
    declared = [Needs("source letters", "a"), Needs("model.states", "b"), Needs(("model.a", "source b"), "c")]
    assert list(misfits(declared, within=("model", "loss"))) == ["b"]


def test_a_message_names_what_is_there():
    assert list(misfits([*Outer().declare(""), Needs("x", "with part: <part> and deep: <deep> it does not")])) == [
        "with part: one and deep: False it does not"
    ]
