import pytest
import torch

from windlass.nn.product import Product


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
