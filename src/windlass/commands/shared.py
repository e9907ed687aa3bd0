"""What commands share: the application, messages, and reading data as a model's recipe says.

Every command imports what it needs when it runs, so that help, completion and usage errors do not wait for torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from windlass.core.errors import RecipeError, WindlassError, as_message, short

if TYPE_CHECKING:
    from windlass.bundle import Bundle
    from windlass.data.readers import DataOptions, ReadResult
    from windlass.decoding.options import SearchOptions
    from windlass.recipe import Recipe


class _Commands(TyperGroup):
    """The commands; Ctrl-C ends each of them in one line, and a closed pipe is no error."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with closed_pipe_is_the_end():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

TASK_NAMES = sorted(path.stem for path in (Path(__file__).parent.parent / "recipe" / "defaults").glob("*.yaml"))
"""The tasks, for help texts; `windlass.tasks` knows them too, but imports the world."""

MAX_NOTES = 5
"""Notes of a kind that are printed one by one; the rest are counted."""


def say(text: str) -> None:
    """Print a message to stderr: progress, notes and errors, never results.

    >>> from contextlib import redirect_stderr
    >>> with redirect_stderr(sys.stdout):
    ...     say("done")
    done
    """
    if text:
        print(as_message(text), file=sys.stderr)


def columns(
    source: str | None = None,
    target: str | None = None,
    alignment: str | None = None,
    format: str | None = None,
    second: str | None = None,
    header: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> dict[str, Any]:
    """Return the data options that are set by flags.

    >>> columns("2", format="csv", header="no")
    {'source': '2', 'format': 'csv', 'header': False}
    """
    if header not in (None, "yes", "no"):
        raise WindlassError(f"--header {header}: say yes or no, or leave it out")
    flags = {"source": source, "target": target, "alignment": alignment, "format": format, "second": second}
    flags |= {"separator": separator, "encoding": encoding}
    given: dict[str, Any] = {key: value for key, value in flags.items() if value is not None}
    given |= {key: 0 for key in ("source", "target", "alignment", "second") if given.get(key) == "0"}  # no name here
    return given if header is None else given | {"header": header == "yes"}


@contextmanager
def closed_pipe_is_the_end() -> Iterator[None]:
    """Print while somebody reads: `windlass predict ... | head` is no error.

    >>> with closed_pipe_is_the_end():
    ...     print("read")
    read
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end
        raise typer.Exit(0) from None


def data_options(columns: dict[str, Any], base: Recipe | None = None) -> DataOptions:
    """Return the data options of a recipe, overridden by `columns`.

    >>> data_options({"source": "2"}).source
    2
    """
    from windlass.data.readers import DataOptions
    from windlass.recipe import parse

    own = {} if base is None else base.data.model_dump(mode="json", include=set(DataOptions.model_fields))
    whole = {} if base is None else base.model_dump(mode="json")
    return parse(whole | {"data": own | columns}, "options").data


def choose_device(name: str, note: Callable[[str], None]) -> str:
    """Return the device that --device names, and note it unless it is the cpu.

    >>> choose_device("cpu", print)
    'cpu'
    """
    from windlass.bundle import check_device

    device = check_device(name)
    if device != "cpu":
        note(f"device: {device}")
    return device


def load_bundles(folder: Path, also: list[Path] | None, device: str) -> list[Bundle]:
    """Load a model and the other members of its ensemble.

    >>> load_bundles(Path("no-such-folder"), None, "cpu")
    Traceback (most recent call last):
    windlass.core.errors.BundleError: no-such-folder: no such folder
    """
    from windlass.bundle import Bundle

    device = choose_device(device, say)
    return [Bundle.load(path, device) for path in (folder, *(also or []))]


def read_file(bundle: Bundle, file: str, columns: dict[str, Any]) -> ReadResult:
    """Read a data file as the model's own data, overridden by `columns`, and print what is wrong with it.

    >>> import tempfile
    >>> from windlass.bundle import Bundle
    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> path = Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = path.write_text("ab\\tba\\n")
    >>> read_file(Bundle.new(Recipe(), Sides.tiny()), str(path), {"source": "2", "target": "1"}).examples[0].source
    'ba'
    """
    from windlass.data.readers import in_its_encoding
    from windlass.experiment.data import read_for_model

    options = data_options({"encoding": None} | columns, bundle.recipe)
    result = read_for_model(bundle.recipe, file, in_its_encoding(file, options, bundle.recipe.data.encoding, say))
    for finding in result.findings[:MAX_NOTES]:
        say(str(finding))
    if len(result.findings) > MAX_NOTES:
        say(f"and {len(result.findings) - MAX_NOTES} more; see: windlass doctor {file}")
    return result


def search_from_flags(bundle: Bundle, kind: str | None, **flags: Any) -> SearchOptions | None:
    """Return the model's search, overridden by flags; None for a model that writes no text.

    >>> from windlass.bundle import Bundle
    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> search_from_flags(Bundle.new(Recipe(), Sides.tiny()), None, size=3).size
    3
    """
    from windlass.commands.search_flags import flag_of, search_options

    if bundle.recipe.search is not None:
        return search_options(bundle.recipe.search, kind=kind, **flags)
    unused = [flag_of(name) for name, value in {"kind": kind, **flags}.items() if value is not None]
    if unused:
        raise RecipeError(f"{unused[0]} has no use: this model predicts a {bundle.task.target} and needs no search")
    return None


def searches_from_flags(
    folders: Sequence[Path], bundles: Sequence[Bundle], kind: str | None, **flags: Any
) -> list[SearchOptions] | None:
    """Return the search of every member of an ensemble, overridden by flags; None for models that write no text.

    Decoders search together, as the first of them does.

    >>> from windlass.bundle import Bundle
    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> [search.size for search in searches_from_flags([Path("one"), Path("two")], [bundle, bundle], None, size=3)]
    [3, 3]
    """
    from windlass.heads.text import TextHead

    found: list[SearchOptions] = []
    decoder: SearchOptions | None = None
    for folder, bundle in zip(folders, bundles, strict=True):
        head = bundle.model.head
        if decoder is not None and isinstance(head, TextHead):
            found.append(decoder)
            continue
        try:
            options = search_from_flags(bundle, kind, **flags)
            if options is None:
                continue
            head.check_search(options)
        except RecipeError as error:
            raise RecipeError(f"{folder}: {error}" if len(bundles) > 1 else str(error)) from None
        found.append(options)
        decoder = options if isinstance(head, TextHead) else decoder
    return found or None


def never_seen(symbols: Sequence[str]) -> str:
    """Name the symbols of an input that are not in the model's vocabulary.

    >>> never_seen(["q", "x"])
    "the model has never seen 'q', 'x'"
    >>> len(never_seen(["x" * 1000])) < 100
    True
    """
    return f"the model has never seen {', '.join(map(short, symbols[:5]))}{' ...' if len(symbols) > 5 else ''}"


def rounded(metrics: dict[str, float]) -> dict[str, float]:
    """Round metrics for JSON.

    >>> rounded({"cer": 12.345678})
    {'cer': 12.3457}
    """
    return {name: round(value, 4) for name, value in metrics.items()}
