"""The tree of a beam search: what was kept at every step, what was pruned, and where the output won."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from windlass.bundle import Bundle
from windlass.core.errors import RecipeError, WindlassError
from windlass.core.marks import EOS
from windlass.core.records import Prediction
from windlass.core.tensors import atomic_write
from windlass.data.examples import Value
from windlass.decoding.options import Beam
from windlass.decoding.search import Considered
from windlass.explain import fonts
from windlass.explain.pages import Html, fill, page
from windlass.explain.render import GREY, INK, check_suffix, label, save
from windlass.inference.predict import predict

PRUNED = 2
"""Continuations that are shown of a step beside the kept ones: the best that were pruned."""
LEGEND = (
    "Each column is a step; a number is the log probability up to there. Blue: the output. Grey: dropped by the "
    "search, of each step the best two. Framed: an end, with the score that ranks it, log p / length ** penalty."
)
_ACROSS, _DOWN = 1.05, 0.3  # inches between steps, and between leaves


@dataclass(frozen=True)
class Node:
    """A partial output.

    >>> Node(1, 0, 1, "a", -0.5, True).ended
    False
    """

    number: int
    parent: int  # the number of what it extends; that of the start is -1
    step: int  # from 1; that of the start is 0
    token: str
    total: float  # log probability up to here
    kept: bool
    won: bool = False  # whether the output begins with it
    score: float | None = None  # of an end: what ranks it

    @property
    def ended(self) -> bool:
        """Whether the output ends here."""
        return self.score is not None

    @property
    def hint(self) -> str:
        """All of it in words."""
        state = "the output" if self.won else "kept" if self.kept else "pruned"
        ranked = "" if self.score is None else f", score {self.score:.3f}"
        return f"step {self.step}, {label(self.token)}: log p {self.total:.3f}{ranked}, {state}"


@dataclass(frozen=True)
class BeamTree:
    """All nodes of a search, and the prediction that it gave.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> tree = beam_tree(Bundle.new(Recipe(), Sides.tiny()), "ab", Beam(size=2))
    >>> tree.nodes[0].token, sum(node.kept for node in tree.nodes if node.step == 1)
    ('<s>', 2)
    """

    prediction: Prediction
    nodes: tuple[Node, ...]
    size: int  # of the beam


def beam_tree(
    bundle: Bundle, text: Value, options: Beam | None = None, prefix: str = "", pruned: int = PRUNED
) -> BeamTree:
    """Search for the output of one input, and return the tree of the search.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> tree = beam_tree(Bundle.new(Recipe(), Sides.tiny()), "ab", Beam(size=2), prefix="b")
    >>> [node.token for node in tree.nodes if node.won][:2]
    ['<s>', 'b']
    """
    options = options or (bundle.recipe.search if isinstance(bundle.recipe.search, Beam) else Beam())
    if not bundle.sides.target.written:
        raise RecipeError("there is no beam to see: this model writes no text")
    if bundle.task.language_model:
        raise RecipeError("there is no beam to see: a language model has no source to search an output for")
    if bundle.sides.source.blank(bundle.sides.read(text)):
        raise WindlassError("nothing to explain in a blank text")
    steps: list[Considered] = []
    prediction = predict([bundle], [text], options, prefix=prefix, watch=steps.append)[0]
    if not steps:
        raise RecipeError("there is no tree to see: a CTC model does not write token by token; train model.head: text")
    copied = bundle.sides.copied(bundle.sides.read(text))
    nodes = _nodes(steps, lambda n: bundle.sides.tokenizer.token(n, copied), options, pruned)
    return BeamTree(replace(prediction, alternatives=()), _with_winner(nodes, prediction), options.size)


def _nodes(steps: Sequence[Considered], name: Callable[[int], str], options: Beam, pruned: int) -> list[Node]:
    nodes = [Node(0, -1, 0, "<s>", 0.0, True)]
    beam = {0: 0}  # the nodes of the hypotheses by their index in the beam
    for t, step in enumerate(steps, 1):
        totals, tokens = step.total[0].tolist(), step.token[0].tolist()  # one sentence
        wide, kept = len(totals[0]), step.kept[0].tolist()
        considered = sorted(range(len(totals) * wide), key=lambda n: -totals[n // wide][n % wide])
        others = [n for n in considered if n not in set(kept)][:pruned]
        following: dict[int, int] = {}
        for place, n in enumerate([*kept, *others]):
            hypothesis, rank = divmod(n, wide)
            total, token = totals[hypothesis][rank], tokens[hypothesis][rank]
            if hypothesis not in beam or total == -float("inf"):
                continue
            ends = token == EOS and place < len(kept)
            score = total / t**options.length_penalty if ends else None
            nodes.append(Node(len(nodes), beam[hypothesis], t, name(token), total, place < len(kept), score=score))
            if place < len(kept) and not ends:
                following[place] = nodes[-1].number
        beam = following
    return nodes


def _with_winner(nodes: Sequence[Node], prediction: Prediction) -> tuple[Node, ...]:
    """The nodes, those of the output marked."""
    path = {0}
    last = nodes[0]
    for token in (*prediction.answer.tokens, *(["</s>"] if prediction.finished else [])):
        last = next(node for node in nodes if node.parent == last.number and node.token == token and node.kept)
        path.add(last.number)
    return tuple(replace(node, won=node.number in path) for node in nodes)


def draw_beam(tree: BeamTree, path: Path) -> Path:
    """Draw the tree of a search: .png, .svg, .html or .json.

    >>> from windlass.core.records import TextAnswer
    >>> draw_beam(BeamTree(Prediction("", TextAnswer()), (), 1), Path("x.gif"))
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: x.gif: cannot write '.gif': name it .png, .svg, .html or .json
    """
    suffix = check_suffix(path).suffix.lower()
    path.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".json":
        content = {"size": tree.size, "prediction": asdict(tree.prediction), "nodes": [asdict(n) for n in tree.nodes]}
        atomic_write(path, json.dumps(content, ensure_ascii=False, indent=1).encode())
    elif suffix == ".html":
        path.write_text(_page(tree), encoding="utf-8")
    else:
        _picture(tree, path)
    return path


def _heights(nodes: Sequence[Node]) -> dict[int, float]:
    """Where each node is, in leaves from the top: a node is in the middle of what extends it."""
    children: dict[int, list[Node]] = {}
    for node in nodes:
        children.setdefault(node.parent, []).append(node)
    heights: dict[int, float] = {}
    leaves = 0

    def place(node: Node) -> float:
        nonlocal leaves
        below = [place(child) for child in sorted(children.get(node.number, []), key=lambda n: (not n.kept, -n.total))]
        if not below:
            leaves += 1
        heights[node.number] = sum(below) / len(below) if below else leaves - 1.0
        return heights[node.number]

    place(nodes[0])
    return heights


def _heading(tree: BeamTree) -> str:
    return f"{tree.prediction.text}: beam of {tree.size}"


def _page(tree: BeamTree) -> str:
    heights, step, leaf = _heights(tree.nodes), 100, 34  # pixels
    at = {n.number: (n.step * step + 8, heights[n.number] * leaf + 20) for n in tree.nodes}
    edges, nodes = [], []
    for node in tree.nodes:
        x, y = at[node.number]
        kind = "won" if node.won else "kept" if node.kept else "pruned"
        if node.parent >= 0:
            from_x, from_y = at[node.parent]
            ends = {"x1": from_x, "y1": from_y, "x2": x, "y2": y}
            edges.append(fill("beam.edge", kind=kind, **ends))
        score = f"{node.total:.2f}" if node.score is None else f"{node.total:.2f} | {node.score:.2f}"
        kind = f"{kind} ended" if node.ended else kind
        placed = {"x": x, "y": f"{y - 14:.0f}", "hint": node.hint, "token": label(node.token), "score": score}
        nodes.append(fill("beam.node", kind=kind, **placed))
    wide, tall = (int(max(place[axis] for place in at.values())) + 150 for axis in (0, 1))
    drawn = fill("beam.tree", wide=wide, tall=tall, edges=Html.joined(edges), nodes=Html.joined(nodes), legend=LEGEND)
    return page(_heading(tree), drawn, "beam")


def _picture(tree: BeamTree, path: Path) -> None:
    from textwrap import fill as wrapped

    from matplotlib.figure import Figure

    heights = _heights(tree.nodes)
    wide = 0.9 + _ACROSS * (max(node.step for node in tree.nodes) + 1)
    wide = max(6.5, wide)
    tall = 1.35 + _DOWN * (1 + max(heights.values()))
    figure = Figure(figsize=(wide, tall))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, wide), ylim=(tall, 0))
    axes.set_axis_off()
    heading = _heading(tree)
    axes.text(0.25, 0.3, heading, size=13, va="center", color=INK, family=fonts.families(heading), parse_math=False)
    colours = {(True, True): "#08519c", (True, False): INK, (False, False): "#a3adb7"}
    for node in tree.nodes:
        x, y = 0.3 + _ACROSS * node.step, 0.75 + _DOWN * heights[node.number]
        colour = colours[node.kept, node.won]
        if node.parent >= 0:
            ends = (0.3 + _ACROSS * (node.step - 1) + 0.22, x - 0.06), (0.75 + _DOWN * heights[node.parent], y)
            axes.plot(*ends, color=colour, lw=1.8 if node.won else 0.7, zorder=1.5 if node.won else 1)
        text = label(node.token)
        frame = {"facecolor": "white", "edgecolor": colour if node.ended else "none", "pad": 1.5, "linewidth": 0.8}
        axes.text(
            x, y, text, size=11, va="center", color=colour, family=fonts.families(text), bbox=frame, parse_math=False
        )
        score = f"{node.total:.2f}" if node.score is None else f"{node.total:.2f} | {node.score:.2f}"
        if node.step:
            frame = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            at = (x + 0.1 * max(1, len(text)) + 0.08, y + 0.02)
            axes.text(*at, score, size=7, va="center", color=colour, bbox=frame)
    axes.text(0.25, tall - 0.3, wrapped(LEGEND, int(wide * 17)), size=8, va="center", color=GREY)
    save(figure, path)
