"""A worker of data-parallel training: `python -m windlass.training.worker`, started by `DataParallel`."""

import os

from windlass.training.data_parallel import DataParallel

if __name__ == "__main__":
    try:
        DataParallel.work()
    except BrokenPipeError:  # the run was interrupted, and nobody reads the sums
        os._exit(0)  # or the interpreter would write them again
