"""The contestants, and an environment of its own for each peer, outside the repository.

Every peer has a requirements file in `requirements/`, installed without looking at what the peer itself asks for
(`--no-deps`) where that would pull another torch; `constraints.txt` pins torch to the CPU build that all share.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
PEERS = Path.home() / ".cache" / "windlass-peers"


@dataclass(frozen=True)
class Contestant:
    """Who takes part, where it runs, and in what."""

    name: str
    script: str
    models: tuple[str, ...]
    peer: str = ""  # the name of its environment and of its requirements file; empty: Windlass's own
    trains: bool = True
    decodes: bool = True
    pinned: bool = False  # held to as many cores as it may have threads, where it takes no number of threads
    several: bool = False  # only where there is more than one core
    absent: dict[str, str] = field(default_factory=dict)  # why it does not take part in a model


CONTESTANTS = (
    Contestant("limit", "limit.py", ("S", "M", "LM")),
    Contestant("windlass", "ours.py", ("S", "M", "LM")),
    Contestant(
        "windlass, a process a core",
        "ours_processes.py",
        ("S", "M"),
        decodes=False,
        several=True,
        absent={"LM": "only models of a recipe"},
    ),
    Contestant(
        "windlass, step by step", "ours_steps.py", ("S", "M"), decodes=False, absent={"LM": "only encoder-decoders"}
    ),
    Contestant("windlass, 8 bits", "ours_8bit.py", ("S", "M"), trains=False, absent={"LM": "only decoding"}),
    Contestant("careful loop", "careful.py", ("S", "M", "LM")),
    Contestant("tutorial loop", "tutorial.py", ("S",), absent={"M": "tutorials teach one layer without feeding"}),
    Contestant("JoeyNMT", "joey.py", ("S", "M"), "joeynmt"),
    Contestant("OpenNMT-py", "opennmt.py", ("S", "M"), "opennmt"),
    Contestant("yoyodyne", "yoyo.py", ("S",), "yoyodyne", absent={"M": "it has no bilinear attention, no feeding"}),
    Contestant("fairseq", "fair.py", ("M",), "fairseq", absent={"S": "it has no GRU"}),
    Contestant(
        "Keras on jax",
        "keras_jax.py",
        ("S", "LM"),
        "keras",
        decodes=False,
        pinned=True,
        absent={"M": "it has no feeding"},
    ),
)


TAGGERS = (
    Contestant("windlass", "ours_tagger.py", ("tag",)),
    Contestant("flair", "flair_tagger.py", ("tag",), "flair"),
)
"""Of tagging.py."""


def python(contestant: Contestant, peers: Path) -> Path:
    return peers / contestant.peer / "bin" / "python" if contestant.peer else Path(sys.executable)


def set_up(peers: Path, names: list[str], contestants: tuple[Contestant, ...] = CONTESTANTS) -> dict[str, str]:
    """Install the peers that are wanted and not there yet; what went wrong is kept in PEER/failed.txt and returned."""
    wrong = {}
    for contestant in contestants:
        if not contestant.peer or contestant.name not in names:
            continue
        folder = peers / contestant.peer
        if (folder / "done.txt").exists():
            continue
        print(f"installing {contestant.name} into {folder}", flush=True)
        reason = _install(folder, contestant.peer)
        (folder / ("failed.txt" if reason else "done.txt")).write_text(reason)
        if reason:
            wrong[contestant.name] = reason
    return wrong


def _install(folder: Path, peer: str) -> str:
    """Make an environment; return what went wrong, in a few lines, or nothing."""
    listed = HERE / "requirements" / f"{peer}.txt"
    alone = HERE / "requirements" / f"{peer}-alone.txt"  # to be installed without their own requirements
    constraints = ["-c", str(HERE / "requirements" / "constraints.txt")]
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    commands = [[sys.executable, "-m", "venv", str(folder)], [*pip, *constraints, "-r", str(listed)]]
    if alone.exists():
        commands.append([*pip, "--no-deps", "-r", str(alone)])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            return "\n".join(lines[-3:]) or f"{' '.join(command)} ended with {done.returncode}"
    return ""


def missing(contestant: Contestant, peers: Path) -> str:
    """Why a contestant cannot run, or nothing."""
    folder = peers / contestant.peer
    if not contestant.peer or (folder / "done.txt").exists():
        return ""
    if (folder / "failed.txt").exists():
        return "does not install: " + (folder / "failed.txt").read_text().strip()
    return "is not installed: run with --setup"


def versions(contestant: Contestant, peers: Path) -> dict[str, str]:
    """What is installed there, of all that matters to speed."""
    if not contestant.peer:
        return {}
    wanted = ["joeynmt", "OpenNMT-py", "yoyodyne", "fairseq", "keras", "jax", "flair", "torch", "numpy"]
    done = subprocess.run(
        [python(contestant, peers), "-m", "pip", "list", "--format", "json"], capture_output=True, text=True
    )
    return {p["name"]: p["version"] for p in json.loads(done.stdout or "[]") if p["name"] in wanted}
