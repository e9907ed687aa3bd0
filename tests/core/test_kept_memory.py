"""Pages that a loop frees and takes again: with `kept` they stay, and at the end they go back."""

import json
import platform
import subprocess
import sys

import pytest

LOOP = """
import ctypes, json, resource, sys
from contextlib import nullcontext
from windlass.core.memory import kept
import torch

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    return int(open("/proc/self/statm").read().split()[1])

ctypes.CDLL(None).mallopt(-3, 2**17)  # what glibc begins with, held fast: by itself it moves, sooner or later
with kept() if sys.argv[1] == "kept" else nullcontext():
    for turn in range(11):
        if turn == 1:
            began = faults()
        blocks = [torch.ones(2**22) for _ in range(3)]  # 3 x 4,096 pages
        del blocks
    taken, within = faults() - began, resident()
print(json.dumps({"taken": taken, "given back": within - resident()}))
"""


def loop(how):
    done = subprocess.run([sys.executable, "-c", LOOP, how], capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_pages_are_taken_once_and_go_back_at_the_end():
    plain, kept = loop("plain"), loop("kept")
    assert plain["taken"] > 50_000  # or there would be nothing to keep
    assert kept["taken"] < plain["taken"] / 5
    assert kept["given back"] > 10_000
