"""The top k tokens of a row, against sorting it."""

import pytest
import torch

from windlass.decoding.sampling import top_k
from windlass.nn import fast
from windlass.nn.fast.topk import BLOCK


@pytest.mark.parametrize("rows", [1, 3, 4, 9])
@pytest.mark.parametrize("size", [5, BLOCK, 6 * BLOCK, 7 * BLOCK + 3, 20 * BLOCK + 1])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k_equals_sorting(rows, size, k):
    x = torch.randn(rows, size, generator=torch.Generator().manual_seed(size + k))
    x[0, -1] = 9.0  # behind the last whole block, where there is such a place
    x[-1, :3] = -torch.inf
    values, ids = top_k(x, k)
    with fast.disabled():
        assert torch.equal(values, top_k(x, k)[0])
    assert torch.equal(values, x.sort(dim=1, descending=True).values[:, :k])
    assert torch.equal(values, x.gather(1, ids))


def test_several_may_be_in_one_block_and_no_token_comes_twice():
    x = torch.zeros(5, 10 * BLOCK)
    x[:, 70:75] = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0])
    assert top_k(x, 5)[1].tolist() == [[70, 71, 72, 73, 74]] * 5
    assert all(len(set(row)) == 5 for row in top_k(torch.zeros(5, 10 * BLOCK), 5)[1].tolist())
