"""The report in a real browser."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from maboost import CombinedBoostClassifier, SmoothBoostClassifier, write_report

pytestmark = pytest.mark.browser

DATA = load_breast_cancer()
NAMES = DATA.target_names[DATA.target]
FLIPPED = np.random.default_rng(0).random(len(NAMES)) < 0.15
NOISY = np.where(FLIPPED, DATA.target_names[1 - DATA.target], NAMES)
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
TRAIN = np.arange(len(NAMES)) % 2 == 0


def frame() -> pd.DataFrame:
    """Numbers, missing values, text, a hostile name and a hostile value."""
    rows = pd.DataFrame(DATA.data, columns=DATA.feature_names)
    rows.loc[::7, "worst area"] = np.nan
    rows["clinic"] = np.where(np.arange(len(rows)) % 5 == 0, EVIL, "north")
    return rows.rename(columns={"mean texture": f"{EVIL} texture"})


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    rows = frame()
    model = SmoothBoostClassifier(
        n_estimators=60,
        early_stopping=False,
        learning_rate=0.3,
        max_depth=3,
        random_state=0,
        smoothness=4,
    )
    model.fit(rows[TRAIN], NOISY[TRAIN], X_val=rows[~TRAIN], y_val=NAMES[~TRAIN])
    path = tmp_path_factory.mktemp("report") / "report.html"
    given = {"X": rows[TRAIN], "y": NOISY[TRAIN], "X_test": rows[~TRAIN], "y_test": NAMES[~TRAIN]}
    return write_report(model, path, **given, max_features=31, source="the breast cancer data")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    trusted = np.where(np.arange(len(NAMES)) % 3 == 0, "trusted", EVIL)
    model = CombinedBoostClassifier(
        error_limits={"trusted": None, EVIL: 0.2}, n_estimators=30, random_state=0
    )
    model.fit(frame(), NOISY, sample_domain=trusted)
    return write_report(
        model, tmp_path_factory.mktemp("sources") / "report.html", X=frame(), y=NOISY
    )


@pytest.fixture
def opened(browser):
    """Opens a report; at the end nothing may have gone wrong or been asked of the network."""
    pages, trouble = [], []

    def open_page(path, width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        page = context.new_page()
        url = path.as_uri()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: request.url == url or trouble.append(request.url))
        page.goto(url)
        pages.append(context)
        return page

    yield open_page
    for context in pages:
        context.close()
    assert trouble == []


def visible(page, column: int) -> list[str]:
    """The cells of a column in the rows that are shown."""
    rows = page.locator("#suspect-table tbody tr:visible")
    script = "(rows, c) => rows.map(r => r.cells[c].dataset.value ?? r.cells[c].textContent)"
    return rows.evaluate_all(script, column)


def head(page, label: str):
    """The head of a column, and its place."""
    labels = page.locator("#suspect-table thead th").all_inner_texts()
    place = [text.strip() for text in labels].index(label)
    return page.locator("#suspect-table thead th").nth(place), place


def sort_states(page) -> list[str | None]:
    return page.locator("#suspect-table thead th").evaluate_all(
        "heads => heads.map(h => h.getAttribute('aria-sort')).filter(s => s)"
    )


def no_overflow(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_nothing_runs_but_our_own_script(opened, report, sources):
    for path in (report, sources):
        page = opened(path)
        assert page.locator("script").count() == 1
        assert page.locator("img").count() == 0
        page.keyboard.press("End")
        page.wait_for_timeout(100)


def test_the_policy_stops_a_foreign_script(browser, report):
    context = browser.new_context()
    page = context.new_page()
    page.goto(report.as_uri())
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    )
    assert page.evaluate("window.ran") is None
    context.close()


def test_sorting_by_numbers(opened, report):
    page = opened(report)
    th, column = head(page, "Weight")
    assert sort_states(page) == ["ascending"]  # by quality
    th.locator("button").click()
    values = [float(v) for v in visible(page, column)]
    assert values == sorted(values)
    assert th.get_attribute("aria-sort") == "ascending"
    th.locator("button").click()
    values = [float(v) for v in visible(page, column)]
    assert values == sorted(values, reverse=True)
    assert th.get_attribute("aria-sort") == "descending"
    assert sort_states(page) == ["descending"]


def test_sorting_by_text_keeps_the_order_of_equals(opened, report):
    page = opened(report)
    _, weight = head(page, "Weight")
    head(page, "Weight")[0].locator("button").click()
    th, column = head(page, "Given label")
    th.locator("button").click()
    labels, weights = visible(page, column), [float(v) for v in visible(page, weight)]
    assert labels == sorted(labels)
    assert set(labels) == {"benign", "malignant"}
    first = labels.count("benign")
    assert weights[:first] == sorted(weights[:first])
    assert weights[first:] == sorted(weights[first:])


def test_missing_values_are_last_both_ways(opened, report):
    page = opened(report)
    th, column = head(page, "worst area")
    for _ in range(2):
        th.locator("button").click()
        values = visible(page, column)
        missing = values.count("")
        assert missing > 0
        assert values[-missing:] == [""] * missing


def test_filter_by_text_and_by_issue(opened, report):
    page = opened(report)
    everything = len(visible(page, 0))
    assert everything == 200
    only = page.get_by_label("Only issues")
    only.check()
    issues = visible(page, 1)
    assert 0 < len(issues) < everything
    assert set(page.locator("#suspect-table tbody tr:visible td:nth-child(2)").all_inner_texts()) == {"issue"}  # fmt: skip
    assert page.locator(".filter output").inner_text() == f"{len(issues)} of 200 rows"
    page.get_by_label("Filter").fill("NORTH")
    north = len(visible(page, 0))
    assert 0 < north < len(issues)
    head(page, "Weight")[0].locator("button").click()
    assert len(visible(page, 0)) == north
    only.uncheck()
    assert north < len(visible(page, 0)) < everything
    page.get_by_label("Filter").fill("no such text")
    assert visible(page, 0) == []
    page.get_by_label("Filter").fill("")
    assert len(visible(page, 0)) == everything


def test_keyboard(opened, report):
    page = opened(report)
    page.keyboard.press("Tab")
    skip = page.locator(".skip")
    assert skip.evaluate("e => e === document.activeElement && e.getBoundingClientRect().left >= 0")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.get_by_label("Filter").focus()
    page.keyboard.type("north")
    north = len(visible(page, 0))
    assert 0 < north < 200
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert 0 < len(visible(page, 0)) < north
    page.keyboard.press("Tab")  # the box that scrolls
    assert page.evaluate("document.activeElement.getAttribute('role')") == "region"
    page.keyboard.press("Tab")
    focused = page.locator("#suspect-table th:first-child button")
    assert focused.evaluate("e => e === document.activeElement")
    assert focused.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    rows = [int(v) for v in visible(page, 0)]
    assert rows == sorted(rows)
    page.keyboard.press("Space")
    assert [int(v) for v in visible(page, 0)] == sorted(rows, reverse=True)


def test_details_open(opened, report):
    page = opened(report)
    summary = page.locator("#errors summary")
    assert not page.locator("#rounds").is_visible()
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("#rounds").is_visible()
    assert page.locator("#rounds tbody tr").count() == 60


def test_a_chart_is_read_off_by_pointer_and_by_key(opened, report):
    page = opened(report)
    chart, readout = page.locator("#chart-errors"), page.locator("#chart-errors .readout")
    assert readout.inner_text().strip() == ""
    box = chart.locator(".plot > svg").bounding_box()
    chart.scroll_into_view_if_needed()
    chart.locator(".plot > svg").hover(position={"x": box["width"] - 1, "y": 20})
    last = page.locator("#rounds tbody tr").last
    said = readout.inner_text()
    assert "round 60" in said
    for column in (2, 3, 4, 5):
        assert last.locator(f":nth-child({column})").text_content() in said
    chart.locator(".plot > svg").focus()
    page.keyboard.press("ArrowLeft")
    assert "round 59" in readout.inner_text()
    page.keyboard.press("Home")
    assert "round 1:" in readout.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 768, 360])
def test_no_page_scrolls_sideways(opened, report, sources, pictures, scheme, width):
    for name, path in (("report", report), ("sources", sources)):
        page = opened(path, width, color_scheme=scheme)
        assert no_overflow(page)
        page.screenshot(path=pictures / f"{name}-{scheme}-{width}.png", full_page=True)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert no_overflow(page)


def luminance(color: str) -> float:
    parts = [float(v) / 255 for v in color.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


BACKGROUND = """e => {
  for (; e; e = e.parentElement) {
    const color = getComputedStyle(e).backgroundColor;
    if (color !== 'rgba(0, 0, 0, 0)') return color;
  }
  return 'rgb(255, 255, 255)';
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(opened, report, scheme):
    page = opened(report, color_scheme=scheme)
    words = [
        "h1", "p", ".lead", "nav a", ".tile dt", ".tile .note", ".tile.alert .value", "caption",
        "thead th", "td", "td.flag", ".missing", "summary", ".legend li", ".y-ticks span", "output",
        "code", "footer p",
    ]  # fmt: skip
    lines = [".line.c1", ".line.c2", ".line.c3", ".line.c0"]
    for selector in words + lines:
        element = page.locator(selector).first
        front = luminance(element.evaluate("e => getComputedStyle(e).color"))
        back = luminance(element.evaluate(BACKGROUND))
        ratio = (max(front, back) + 0.05) / (min(front, back) + 0.05)
        assert ratio >= (3.0 if selector in lines else 4.5), (selector, ratio)


def test_dark_mode_is_dark(opened, report):
    light, dark = (
        luminance(opened(report, color_scheme=s).locator("body").evaluate(BACKGROUND))
        for s in ("light", "dark")
    )
    assert light > 0.8
    assert dark < 0.05


def test_without_script(opened, report):
    page = opened(report, java_script_enabled=False)
    assert page.locator("#suspect-table tbody tr:visible").count() == 200
    assert page.locator(".filter:visible").count() == 0
    assert page.locator("button").count() == 0
    assert page.locator("#chart-errors .plot svg").is_visible()
    page.locator("#errors summary").click()
    assert page.locator("#rounds").is_visible()


def test_print(opened, report, pictures):
    page = opened(report, 794, color_scheme="dark")  # A4
    page.emulate_media(media="print")
    assert no_overflow(page)
    box = page.locator("#suspects .scroll")
    assert box.evaluate("e => e.scrollHeight <= e.clientHeight + 1")
    assert not page.locator("nav").is_visible()
    assert not page.locator(".filter").is_visible()
    assert luminance(page.locator("body").evaluate(BACKGROUND)) > 0.8
    assert page.pdf(path=pictures / "report.pdf", format="A4").startswith(b"%PDF")
