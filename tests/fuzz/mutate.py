"""Mutations of bytes, of JSON values and of tensors. All randomness comes from the generator that they are given."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor

SNIPPETS = (
    b"", b"\t", b"\n", b"\r\n", b"\r", b",", b";", b"|", b'"', b'""', b"\\", b"(", b")", b"[", b"]", b"{", b"}", b":",
    b" ", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"PAR1", b"\xf0\x9f", b"\xc2\xa0",
    b"\xe2\x80\xa8", b"\x1b[2J", b"\x9b", b'"\\ud800"', b"null", b"NaN", b"-Infinity", b"1e999", b"9" * 400,
    b"9" * 5000, b"0-0", b"-", b"__label__", b"#", b"-DOCSTART-", b"1-2\t", b"1.1\t", b"source\ttarget", b"(" * 300,
    b")" * 300, b"[" * 300, b"[" * 3000, b'{"a":' * 200, b"x" * 1200, b"x\t" * 1200, b"a,b\n",
    b"_", b"(S )", b"( )", b"B-", b"I-PER", b"O",
)  # fmt: skip


def bytes_mutated(chance: Random, content: bytes) -> bytes:
    """Some bytes changed, cut out, put in, doubled or cut off."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(data) + 1)
        length = min(len(data) - at, chance.choice((1, 1, 2, 5, 20, 100)))
        match chance.randrange(7):
            case 0 if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
            case 1:
                del data[at:]
            case 2:
                del data[at : at + length]
            case 3:
                data[at:at] = chance.choice(SNIPPETS)
            case 4:
                data[at:at] = data[at : at + length] * chance.choice((1, 2, 50))
            case 5:
                data[at : at + length] = bytes(chance.randrange(256) for _ in range(length))
            case _:
                data[at : at + length] = chance.choice(SNIPPETS)
    return bytes(data)


def hostile(chance: Random) -> Any:
    """A value that nobody expects."""
    deep: Any = "deep"
    for _ in range(chance.choice((2, 150))):
        deep = [deep] if chance.random() < 0.5 else {"a": deep}
    text = chance.choice(
        ("", " ", "x" * 5000, "\x1b[2J", "\ud800", "nan", "\n", "none", "auto", "gru", "7", "\0", "/", "é")
    )
    number = chance.choice((-1, 0, 1, 2, 3, 7, 100, 10**9, 10**12, 2**31, 2**53, 2**63, 10**30))
    floating = chance.choice((0.5, -0.5, 1.0, 1.5, 1e-320, 1e308, math.nan, math.inf, -math.inf))
    return chance.choice(
        (None, True, False, text, text, number, number, floating, [], {}, [text], [number], {text: 1}, deep)
    )


def value_mutated(chance: Random, content: Any) -> Any:
    """A copy of a JSON value with one part of it changed."""
    whole = copy.deepcopy(content)
    places: list[tuple[Any, Any]] = []
    waiting = [whole]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], dict | list):
                waiting.append(node[key])
    if not places or chance.random() < 0.02:
        return hostile(chance)
    node, key = _any_level(chance, places)
    match chance.randrange(8):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[chance.choice((f"{key}x", "", "kind", "x" * 3000, "\x1b[2J"))] = hostile(chance)
        case 1 | 2 if isinstance(node, list):
            node.insert(key, copy.deepcopy(node[key]) if chance.random() < 0.5 else hostile(chance))
        case 2 | 3:
            other, at = _any_level(chance, places)
            node[key] = copy.deepcopy(other[at]) if at in other or isinstance(other, list) else hostile(chance)
        case 4 if isinstance(node[key], int | float) and not isinstance(node[key], bool):
            node[key] = chance.choice((-node[key], node[key] + 1, node[key] * 10, node[key] / 3, str(node[key])))
        case _:
            node[key] = hostile(chance)
    return whole


def plausible(chance: Random, content: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """A copy of a recipe with one of its values changed to another of the same type."""
    whole = copy.deepcopy(content)
    node: Any = whole
    while True:
        key = chance.choice(list(node))
        if not isinstance(node[key], dict) or not node[key]:
            break
        if "kind" in node[key] and chance.random() < 0.2:
            node[key] = chance.choice(words)
            return whole
        node = node[key]
    match node[key]:
        case bool():
            node[key] = not node[key]
        case int():
            node[key] = chance.choice((0, 1, 1, 2, 3, 4, 5, 6, 7, 12, 1000, 10**9))
        case float():
            node[key] = chance.choice((0.0, 0.1, 0.5, 0.99, 1.0, 2.0, 1e-8, 1e8, 1e300))
        case str():
            node[key] = chance.choice(words)
        case None:
            node[key] = chance.choice((*words[:3], 1, 2, 5, 0.5, True))
        case _:
            node[key] = chance.choice(([], [1, 2], [3], [0.5, 0.9], None))
    return whole


def _any_level(chance: Random, places: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """A place; those of large tables are drawn no more often than the others."""
    by_node: dict[int, list[tuple[Any, Any]]] = {}
    for place in places:
        by_node.setdefault(id(place[0]), []).append(place)
    return chance.choice(chance.choice(list(by_node.values())))


def tensors_mutated(chance: Random, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """A copy of tensors with one of them changed."""
    changed = {name: tensor.clone() for name, tensor in tensors.items()}
    name = chance.choice(sorted(changed))
    tensor = changed[name]
    flat = tensor.view(-1)
    match chance.randrange(9):
        case 0 | 1 if tensor.is_floating_point() and flat.numel():
            value = chance.choice((math.nan, math.inf, -math.inf, 1e38, -1e38, 1e20, 1e8, 0.0, 1e-40))
            flat[chance.randrange(flat.numel())] = value
        case 2:
            tensor.fill_(chance.choice((0, 1, -1, 100)))
        case 3:
            del changed[name]
        case 4:
            changed[chance.choice((f"{name}x", f"{name}|scale", "", "\x1b[2J", "x" * 3000))] = changed.pop(name)
        case 5:
            dtypes = (torch.float64, torch.float16, torch.int8, torch.int64, torch.bool, torch.bfloat16)
            changed[name] = tensor.to(chance.choice(dtypes))
        case 6 if tensor.dim():
            changed[name] = tensor[: chance.randrange(tensor.size(0) + 1)].clone()
        case 7:
            changed[name] = chance.choice((flat, tensor[None], flat[:0], flat.sum())).clone()
        case _:
            changed[f"{name}|scale"] = torch.ones(chance.choice(((), (1,), (3,), (0,), tuple(tensor.shape[:1]))))
    return changed
