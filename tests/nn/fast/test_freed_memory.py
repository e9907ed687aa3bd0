"""Blocks that a training step frees stay with the process for the next step, by glibc's own rule."""

import json
import platform
import subprocess
import sys

import pytest

LOOP = """
import json, resource, sys
import torch
from windlass.nn.fast.onednn import prepare_training

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    return int(open("/proc/self/statm").read().split()[1])

if sys.argv[1] == "prepared":
    prepare_training()
for turn in range(11):
    if turn == 1:
        began = faults()
    blocks = [torch.ones(2**21) for _ in range(5)]  # 5 x 2,048 pages: 40 MB
    del blocks
taken, before = faults() - began, resident()
large = torch.ones(2**25)  # 128 MB
del large
print(json.dumps({"taken": taken, "kept of a large block": resident() - before}))
"""


def loop(how):
    done = subprocess.run([sys.executable, "-c", LOOP, how], capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has this rule")
def test_pages_are_taken_once_and_large_blocks_still_go_back():
    plain, prepared = loop("plain"), loop("prepared")
    if plain["taken"] < 50_000:
        pytest.skip("the system takes huge pages just now: there is nothing to gain")
    assert prepared["taken"] < plain["taken"] / 5
    assert prepared["kept of a large block"] < 1_000
