"""A worker of data-parallel training: `python -m windlass.training.worker`, started by `DataParallel`."""

from windlass.training.data_parallel import DataParallel

if __name__ == "__main__":
    DataParallel.work()
