"""Problems whose answer depends on something that was read a given number of steps before: made up, never exhausted.

A problem draws rows with a gap: the number of tokens between what must be remembered and where it is needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import final

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sample:
    """Rows of one problem: inputs, and the answers at the last places of each row.

    >>> Sample(torch.zeros(4, 9, dtype=torch.long), torch.zeros(4, 2)).inputs.shape
    torch.Size([4, 9])
    """

    inputs: Tensor  # (B, S) ids, or (B, S, X) numbers
    answers: Tensor  # (B, K) classes, or numbers, for the last K places


class Problem(ABC):
    """One problem of the test."""

    name: str
    title: str
    """What it is, for headings."""
    inputs: int
    """How many kinds of token there are; of numbers, how many a step reads."""
    classes: int | None
    """How many answers there are to choose from; None: the answer is a number."""
    tolerance = 0.1
    """A number is right if it is off by less."""

    @property
    def chance(self) -> float:
        """The accuracy of a guess."""
        assert self.classes is not None
        return 1 / self.classes

    @abstractmethod
    def draw(self, gap: int, rows: int, random: Random) -> Sample:
        """Draw some rows with one gap; all of them have the same length."""

    @abstractmethod
    def show(self, row: Sequence[int] | Sequence[Sequence[float]]) -> str:
        """One row of inputs as a person reads it."""


@final
class Copying(Problem):
    """Three symbols of eight, blanks, three marks: name a symbol at each mark (Hochreiter and Schmidhuber 1997).

    >>> problem, random = Copying(), Random(1)
    >>> sample = problem.draw(4, 1, random)
    >>> problem.show(sample.inputs[0].tolist()), "".join("abcdefgh"[n] for n in sample.answers[0].tolist())
    ('c b e . . . . ? ? ?', 'cbe')
    """

    name, title = "copying", "copying three symbols"
    symbols, length = 8, 3
    inputs, classes = 2 + symbols, symbols

    def draw(self, gap: int, rows: int, random: Random) -> Sample:
        """Symbols, `gap` blanks, marks."""
        seen = torch.tensor([[random.randrange(self.symbols) for _ in range(self.length)] for _ in range(rows)])
        blanks, marks = torch.zeros(rows, gap, dtype=torch.long), torch.ones(rows, self.length, dtype=torch.long)
        return Sample(torch.cat([seen + 2, blanks, marks], 1), seen)

    def show(self, row: Sequence[int] | Sequence[Sequence[float]]) -> str:
        """A letter for every symbol, `.` for a blank, `?` for a mark."""
        return " ".join(".?abcdefgh"[int(token)] for token in row)  # type: ignore[arg-type]


@final
class Adding(Problem):
    """Numbers between 0 and 1, two of them marked: name their sum (Hochreiter and Schmidhuber 1997).

    The first and the last number are marked. An answer counts as right if it is off by less than 0.1; to guess the
    mean is right for one row in five.

    >>> problem, random = Adding(), Random(1)
    >>> sample = problem.draw(2, 1, random)
    >>> problem.show(sample.inputs[0].tolist()), round(sample.answers.item(), 2)
    ('[0.13] 0.85 0.76 [0.26]', 0.39)
    """

    name, title = "adding", "adding two numbers"
    inputs, classes = 2, None
    chance = 0.19  # 1 - 0.9 ** 2: the sum of two uniform numbers is within 0.1 of its mean

    def draw(self, gap: int, rows: int, random: Random) -> Sample:
        """A marked number, `gap` others, a marked number."""
        values = torch.tensor([[random.random() for _ in range(gap + 2)] for _ in range(rows)])
        marks = torch.zeros_like(values)
        marks[:, [0, -1]] = 1.0
        return Sample(torch.stack([values, marks], -1), (values * marks).sum(1, keepdim=True))

    def show(self, row: Sequence[int] | Sequence[Sequence[float]]) -> str:
        """The numbers, marked ones in brackets."""
        return " ".join(f"[{x:.2f}]" if marked else f"{x:.2f}" for x, marked in row)  # type: ignore[misc]


@final
class Brackets(Problem):
    """Brackets of four kinds, of which up to three are open: name the one that must be closed next.

    Between its opening and the question lies a balanced string, at most three deep.

    >>> problem, random = Brackets(), Random(3)
    >>> sample = problem.draw(6, 1, random)
    >>> problem.show(sample.inputs[0].tolist()), ")]}>"[sample.answers.item()]
    ('[ { } < > ( )', ']')
    """

    name, title = "brackets", "closing the right bracket"
    kinds, deepest = 4, 3
    inputs, classes = 2 * kinds, kinds

    def draw(self, gap: int, rows: int, random: Random) -> Sample:
        """Up to two open brackets, the one to close, a balanced string of `gap` brackets."""
        around = random.randrange(3)
        drawn = [self._row(gap, around, random) for _ in range(rows)]
        return Sample(torch.tensor([row for row, _ in drawn]), torch.tensor([[answer] for _, answer in drawn]))

    def _row(self, gap: int, around: int, random: Random) -> tuple[list[int], int]:
        row = [random.randrange(self.kinds) for _ in range(around + 1)]
        answer, inner = row[-1], list[int]()
        for left in range(gap - gap % 2, 0, -1):
            opens = not inner or (len(inner) < min(self.deepest, left) and random.random() < 0.5)
            if opens and len(inner) < left:
                inner.append(random.randrange(self.kinds))
                row.append(inner[-1])
            else:
                row.append(self.kinds + inner.pop())
        return row, answer

    def show(self, row: Sequence[int] | Sequence[Sequence[float]]) -> str:
        """The brackets."""
        return " ".join("([{<)]}>"[int(token)] for token in row)  # type: ignore[arg-type]


_NOUNS = "flight airline airport pilot engine ticket passenger agent city delay".split()
_VERBS = "canceling watching calling leaving following".split()
_BEFORE = "near behind above of by with".split()
_ADVERBS = "often now again slowly there".split()


@final
class Agreement(Problem):
    """Subject and verb, with other nouns and their verbs between them: was or were?

    The decks' sentence is one of them: "the flights the airline was canceling were full". Some sentences begin with
    another noun ("near the airports, the flights ..."), so that the first noun is not always the subject.

    >>> problem, random = Agreement(), Random(7)
    >>> sample = problem.draw(4, 1, random)
    >>> problem.show(sample.inputs[0].tolist()), ("was", "were")[sample.answers.item()]
    ('behind the flights , the cities by the cities now', 'were')
    """

    name, title = "agreement", "agreement of subject and verb"
    words = ("the", "was", "were", ",", *_NOUNS, *(f"{noun}s".replace("ys", "ies") for noun in _NOUNS),
             *_VERBS, *_BEFORE, *_ADVERBS)  # fmt: skip
    inputs, classes = len(words), 2

    def __init__(self) -> None:
        self.ids = {word: n for n, word in enumerate(self.words)}

    def draw(self, gap: int, rows: int, random: Random) -> Sample:
        """A subject, `gap` words, and the place of the verb."""
        front = random.random() < 0.5
        drawn = [self._row(gap, front, random) for _ in range(rows)]
        inputs = [[self.ids[word] for word in words] for words, _ in drawn]
        return Sample(torch.tensor(inputs), torch.tensor([[int(plural)] for _, plural in drawn]))

    def _noun(self, random: Random) -> tuple[list[str], bool]:
        plural, number = random.random() < 0.5, random.randrange(len(_NOUNS))
        return ["the", self.words[4 + number + plural * len(_NOUNS)]], plural

    def _row(self, gap: int, front: bool, random: Random) -> tuple[list[str], bool]:
        row = [random.choice(_BEFORE), *self._noun(random)[0], ","] if front else []
        subject, plural = self._noun(random)
        row += subject
        while gap:
            phrase = [random.choice(_ADVERBS)]
            length = random.choice([n for n in (1, 3, 4) if n <= gap])
            if length == 3:  # near the airport
                phrase = [random.choice(_BEFORE), *self._noun(random)[0]]
            elif length == 4:  # the airline was canceling
                noun, many = self._noun(random)
                phrase = [*noun, "were" if many else "was", random.choice(_VERBS)]
            row += phrase
            gap -= len(phrase)
        return row, plural

    def show(self, row: Sequence[int] | Sequence[Sequence[float]]) -> str:
        """The words."""
        return " ".join(self.words[int(token)] for token in row)  # type: ignore[arg-type]


PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in (Copying(), Adding(), Brackets(), Agreement())}
"""Every problem of the test by name."""
