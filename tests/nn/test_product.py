import pytest
import torch

from windlass.nn.product import Fixed, Product, linear, packs, times


@pytest.fixture
def given():
    torch.manual_seed(0)
    weight = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    return weight, x


def twice(product, x):
    return product(torch.tanh(product(x)), add=product(x))


def test_outputs_and_gradients_are_those_of_plain_products(given):
    weight, x = given
    assert torch.autograd.gradcheck(lambda w, y: twice(Product(w), y), given)
    assert torch.equal(twice(Product(weight), x), torch.addmm(x @ weight.t(), torch.tanh(x @ weight.t()), weight.t()))


def plain_gradient(weight, x):
    return torch.autograd.grad((torch.tanh(x @ weight.t()) @ weight.t() + x @ weight.t()).sum(), weight)[0]


def test_asking_for_the_inputs_gradient_first_does_not_count_into_the_weights(given):
    weight, x = given
    out = twice(Product(weight), x).sum()
    torch.autograd.grad(out, x, retain_graph=True)
    out.backward()
    assert torch.allclose(weight.grad, plain_gradient(weight, x))


def test_walking_back_twice_counts_twice(given):
    weight, x = given
    out = twice(Product(weight), x).sum()
    out.backward(retain_graph=True)
    out.backward()
    assert torch.allclose(weight.grad, 2 * plain_gradient(weight, x))


def test_a_step_that_nothing_came_of_adds_nothing(given):
    weight, x = given
    product = Product(weight)
    product(x)
    product(x).sum().backward()
    assert torch.allclose(weight.grad, x.detach().sum(0).expand(2, 2))


def test_without_gradients_nothing_is_kept(given):
    weight, x = given
    with torch.no_grad():
        product = Product(weight)
        product(x)
    assert not product.deferred
    assert product.uses == []


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_a_product_by_the_fastest_kernel_is_the_same_product(kind, bias):
    torch.manual_seed(2)
    wide = torch.randn(7, 9, dtype=kind)
    b = torch.randn(7, dtype=kind) if bias else None
    for weight in (wide, wide[:, 2:8], wide.t().contiguous().t()):  # with gaps, and the other way round
        for x in (torch.randn(4, weight.size(1), dtype=kind), torch.randn(weight.size(1), 4, dtype=kind).t()):
            right = torch.nn.functional.linear(x, weight, b)
            torch.testing.assert_close(times(x, weight, b), right)
            torch.testing.assert_close(Fixed(weight, rows=4)(x, b), right)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_linear_has_the_gradients_of_torch(kind):
    torch.manual_seed(2)
    given = [torch.randn(size, dtype=kind, requires_grad=True) for size in ((2, 3, 5), (4, 5), (4,))]
    weights = torch.randn(2, 3, 4, dtype=kind)
    ways = [(way(*given) * weights).sum() for way in (linear, torch.nn.functional.linear)]
    for one, other in zip(*(torch.autograd.grad(loss, given) for loss in ways), strict=True):
        torch.testing.assert_close(one, other)


def test_linear_of_nothing_is_the_bias():
    assert linear(torch.zeros(2, 0), torch.zeros(3, 0, requires_grad=True), torch.ones(3)).tolist() == [[1.0] * 3] * 2


def test_without_onednn_products_are_plain(monkeypatch):
    weight, x = torch.randn(3, 2), torch.randn(4, 2)
    monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda: False)
    assert not packs(x)
    assert torch.equal(times(x, weight), x @ weight.t())
    assert torch.equal(Fixed(weight, rows=4)(x), x @ weight.t())
