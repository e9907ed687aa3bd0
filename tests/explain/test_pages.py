"""Pages: whole in themselves, for every task and every kind of picture; in a browser, if there is one.

The tests in a browser need Chromium and Playwright: apt-get install chromium && pip install playwright.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from task_models import task_model
from windlass.api import Trained
from windlass.bundle import Bundle
from windlass.decoding.options import Beam
from windlass.explain.pages import FOLDER, Html, fill
from windlass.tasks import TASKS

BUNDLES = Path(__file__).parent.parent / "fixtures" / "bundles"
MARKUP = re.compile(r"<(?!style|script)[a-z][^>]*>")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of every task, and of every other kind of picture."""
    folder, found = tmp_path_factory.mktemp("pages"), {}
    for task in TASKS:
        bundle, value = task_model(task)
        path = found[task] = folder / f"{task}.html"
        if bundle.task.language_model:
            Trained(bundle).saliency("abca", path)
        else:
            Trained(bundle).explain(value, path)
    model = Trained(Bundle.load(BUNDLES / "pronounce"))
    others = {name: folder / f"{name}.html" for name in ("gates", "saliency", "tree", "what-if")}
    model.gates("keba", others["gates"])
    model.saliency("keba", others["saliency"])
    model.beam("keba", others["tree"], Beam(size=3))
    model.what_if("keba", others["what-if"], prefix="t")
    return found | others


NAMES = [*TASKS, "gates", "saliency", "tree", "what-if"]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_whole_and_every_cell_tells_its_value(pages, name):
    page = pages[name].read_text(encoding="utf-8")
    markup = [tag for tag in MARKUP.findall(page) if not tag.startswith("<img")]
    assert not [tag for tag in markup if re.search(r"\b(src|href)=", tag)]
    assert "http" not in page
    assert not re.search(r"\$\w", page)  # every place of a template is filled
    assert "prefers-color-scheme: dark" in page
    assert re.search(r'data-cells="\d+"', page)
    assert len([tag for tag in markup if 'title="' in tag]) >= 2


def test_values_are_escaped_and_html_is_not():
    assert "&lt;b&gt;&quot;" in fill("heat.heading", mark="", text='<b>"')
    assert "<b>" in fill("heat.heading", mark="", text=Html("<b>"))
    with pytest.raises(KeyError):
        fill("heat.heading", text="a value is missing")


def test_the_code_holds_no_html():
    tag = re.compile(r"<(div|span|table|td|th|tr|p|style|script|html|body|svg|figure|img|i|b)\b[^>]*>")
    for path in FOLDER.parent.glob("*.py"):
        code = [line for line in path.read_text(encoding="utf-8").splitlines() if ">>>" not in line]
        found = [line for line in code if tag.search(line) and not line.strip().startswith(("'", "unit"))]
        assert not found, path.name


# ---- in a browser


@pytest.fixture(scope="module")
def browser():
    sync = pytest.importorskip("playwright.sync_api", reason="needs a browser: pip install playwright")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync.sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except sync.Error as error:
            pytest.skip(f"needs a browser: apt-get install chromium ({str(error).splitlines()[0]})")
        yield started
        started.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_work_in_a_browser(pages, browser, scheme):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    for name in NAMES:
        requests.clear()
        page.goto(pages[name].as_uri())
        cells, output = page.locator("[data-cells] [title]"), page.locator("output")
        assert cells.count() >= 2, name
        last = cells.nth(cells.count() - 1)
        last.scroll_into_view_if_needed()
        last.hover()
        assert output.inner_text() == last.get_attribute("title"), name
        page.mouse.move(0, 0)  # or what comes under the pointer is shown
        page.locator("[data-cells] [title][tabindex='0']").first.focus()
        first = output.inner_text()
        assert first == cells.first.get_attribute("title"), name
        page.keyboard.press("ArrowRight")
        moved = page.evaluate("document.activeElement.title")
        assert output.inner_text() == moved, name
        across = page.evaluate("document.activeElement.closest('[data-cells]').querySelectorAll('[title]').length")
        assert across == 1 or page.evaluate("document.activeElement.tabIndex") == 0
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light"), name
        assert page.locator("h1").bounding_box()["height"] > 0
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == [], name
    assert errors == []
    context.close()
