"""The page in a real browser: it loads alone, shows what it should, and does what it is asked."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from seedspread.report.load import load_table
from seedspread.report.page import Report
from seedspread.report.server import LiveReport, Rarely, signature
from tests.report.helpers import ODD, Serve, made_store, material_of, numeric_table, unfinished

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="needs chromium and chromium-driver"),
    # The driver's own client leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
PATIENCE = 60.0


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--window-size=1200,900",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        found = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    except WebDriverException as error:
        pytest.skip(f"chromium does not start here: {str(error).splitlines()[0]}")
    with found:
        found.set_script_timeout(PATIENCE)
        yield found


@pytest.fixture
def serve(browser: webdriver.Chrome, serve: Serve) -> Iterator[Serve]:
    """The page is left before its server ends."""
    yield serve
    browser.get("about:blank")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose name is a script, as a page."""
    folder = tmp_path_factory.mktemp("browser")
    made_store(folder / "store", seeds=5, name=ODD)
    path = folder / "report.html"
    path.write_text(Report(material_of(folder / "store")).page(), encoding="utf-8")
    return path


# In one go: an element that is looked up may be replaced before it is read.
MAIN = "return document.querySelector('main').innerText"


def log(browser: webdriver.Chrome, kind: str) -> list[dict[str, Any]]:
    """What has come since the last call."""
    entries: list[dict[str, Any]] = browser.get_log(kind)  # type: ignore[no-untyped-call]
    return entries


def wait(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (value := what()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
    return value


def open_page(browser: webdriver.Chrome, address: str) -> None:
    for kind in ("browser", "performance"):
        log(browser, kind)  # what is there is another page's
    browser.get(address)
    wait(lambda: browser.execute_script("return document.documentElement.dataset.ready === 'yes'"))


def drawn(browser: webdriver.Chrome, name: str) -> WebElement:
    """A figure, scrolled to and drawn."""
    figure = browser.find_element(By.ID, name)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", figure)
    wait(lambda: figure.get_attribute("data-drawn") == "yes")
    return figure


def requests(browser: webdriver.Chrome) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in log(browser, "performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def spread(browser: webdriver.Chrome) -> WebElement:
    names = browser.execute_script("return [...document.querySelectorAll('figure.chart')].map(f => f.id)")
    return drawn(browser, next(name for name in names if name.endswith("-spread")))


def test_every_figure_is_drawn_without_an_error_and_without_a_request(
    browser: webdriver.Chrome, page: Path
) -> None:
    open_page(browser, page.as_uri())
    browser.execute_async_script("seedspread.drawAll().then(arguments[0])")
    figures = browser.find_elements(By.CSS_SELECTOR, "figure.chart")
    assert len(figures) >= 4
    assert {f.get_attribute("data-drawn") for f in figures} == {"yes"}
    assert [e for e in log(browser, "browser") if e["level"] in ("SEVERE", "WARNING")] == []
    outside = [u for u in requests(browser) if not u.startswith(("file:", "data:", "blob:"))]
    assert outside == []


def test_a_table_whose_name_begins_with_a_digit_is_drawn(browser: webdriver.Chrome, tmp_path: Path) -> None:
    table = numeric_table(tmp_path).rename(tmp_path / "2024-results.csv")
    data = load_table(table, "accuracy", "margin", None, ["batch"], "seed", None)
    path = tmp_path / "report.html"
    path.write_text(Report(data).page(), encoding="utf-8")
    open_page(browser, path.as_uri())
    assert spread(browser).get_attribute("id") == "2024-results-spread"


def test_a_study_named_like_a_script_is_text(browser: webdriver.Chrome, page: Path) -> None:
    open_page(browser, page.as_uri())  # an alert would end this call with an error
    assert ODD in browser.find_element(By.TAG_NAME, "main").text
    browser.execute_async_script("seedspread.drawAll().then(arguments[0])")
    assert not any(
        ODD[8:16] in (s.get_attribute("textContent") or "")[:40]
        for s in browser.find_elements(By.TAG_NAME, "script")
    )


def test_a_pointer_that_rests_on_a_run_names_it(browser: webdriver.Chrome, page: Path) -> None:
    open_page(browser, page.as_uri())
    figure = spread(browser)
    point = figure.find_element(By.CSS_SELECTOR, ".panel .scatterlayer .trace:nth-child(3) path.point")
    ActionChains(browser).move_to_element(point).perform()
    script = "return arguments[0].querySelector('.hoverlayer').textContent"
    label = wait(lambda: browser.execute_script(script, figure))
    assert "clamp, detach, seed 1" in label
    assert "run " in label


def opacities(browser: webdriver.Chrome, figure: WebElement) -> dict[str, float]:
    values: dict[str, float] = browser.execute_script(
        "const traces = arguments[0].querySelector('.panel').data;"
        "return Object.fromEntries(traces.map(t => [t.meta, t.opacity ?? 1]))",
        figure,
    )
    return values


def test_a_click_isolates_a_condition_and_another_brings_all_back(
    browser: webdriver.Chrome, page: Path
) -> None:
    open_page(browser, page.as_uri())
    figure = spread(browser)
    point = figure.find_element(By.CSS_SELECTOR, ".panel .scatterlayer .trace:nth-child(3) path.point")
    ActionChains(browser).move_to_element(point).pause(0.4).click().perform()
    wait(lambda: opacities(browser, figure)["subtract, detach"] < 1)
    assert opacities(browser, figure)["clamp, detach"] == 1
    ActionChains(browser).pause(0.6).click().perform()
    wait(lambda: opacities(browser, figure)["subtract, detach"] == 1)


def test_the_legend_shows_and_hides_a_condition(browser: webdriver.Chrome, page: Path) -> None:
    open_page(browser, page.as_uri())
    figure = spread(browser)
    before = len(figure.find_elements(By.CSS_SELECTOR, ".panel path.point"))
    button = figure.find_element(By.CSS_SELECTOR, ".legend button")
    assert button.text == "clamp, detach"
    button.click()
    wait(lambda: len(figure.find_elements(By.CSS_SELECTOR, ".panel path.point")) == before - 5)
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    wait(lambda: len(figure.find_elements(By.CSS_SELECTOR, ".panel path.point")) == before)


def test_a_table_is_sorted_by_its_numbers(browser: webdriver.Chrome, page: Path) -> None:
    open_page(browser, page.as_uri())
    table = next(t for t in browser.find_elements(By.CSS_SELECTOR, "figure.table") if "Every cell" in t.text)
    button = table.find_elements(By.CSS_SELECTOR, "button.sort")[3]

    def means() -> list[float]:
        return [float(row.find_elements(By.TAG_NAME, "td")[2].text)
                for row in table.find_elements(By.CSS_SELECTOR, "tbody tr")]  # fmt: skip

    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", table)
    button.click()
    assert means() == sorted(means())
    button.click()
    assert means() == sorted(means(), reverse=True)
    assert len(set(means())) > 1


def test_a_table_is_copied_as_csv_and_latex(browser: webdriver.Chrome, page: Path) -> None:
    open_page(browser, page.as_uri())
    browser.execute_script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    table = next(t for t in browser.find_elements(By.CSS_SELECTOR, "figure.table") if "Every cell" in t.text)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", table)
    for kind, start in (("csv", "margin_type,stability,these runs: n,"), ("latex", "% Every cell")):
        table.find_element(By.CSS_SELECTOR, f"button[data-copy={kind}]").click()
        assert wait(lambda: browser.execute_script("return window.copied")).startswith(start)
        browser.execute_script("delete window.copied")


def test_dark_and_light_change_the_page_and_its_figures(browser: webdriver.Chrome, page: Path) -> None:
    open_page(browser, page.as_uri())
    figure = spread(browser)

    def colors() -> tuple[str, str]:
        back = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        script = "return arguments[0].querySelector('.panel').layout.font.color"
        return back, browser.execute_script(script, figure)

    light = colors()
    browser.find_element(By.CSS_SELECTOR, ".theme").click()
    wait(lambda: all(a != b for a, b in zip(colors(), light, strict=True)))


def test_nothing_is_wider_than_a_phone(browser: webdriver.Chrome, page: Path) -> None:
    size = {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        open_page(browser, page.as_uri())
        browser.execute_async_script("seedspread.drawAll().then(() => setTimeout(arguments[0], 300))")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_names_of_rows_leave_room_for_the_rows_on_a_phone(browser: webdriver.Chrome, page: Path) -> None:
    size = {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        open_page(browser, page.as_uri())
        figure = spread(browser)
        boxes = (
            "return [...arguments[0].querySelectorAll('.panel .bglayer, .panel .cartesianlayer .plot')].map("
        )
        widths = browser.execute_script(boxes + "e => e.getBoundingClientRect().width)", figure)
        assert max(widths) > 200
        ends = "return [...arguments[0].querySelectorAll('.panel text')].map(e => e.getBoundingClientRect())"
        for box in browser.execute_script(
            ends + ".map(b => [b.left, b.right, b.width]).filter(b => b[2])", figure
        ):
            assert 0 <= box[0] < box[1] <= 390, box
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_numeric_arms_keep_their_names_on_a_phone(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """In lines below their marks, none left out, none out of the picture."""
    table = numeric_table(tmp_path)
    material = load_table(table, "accuracy", "margin", "0.1713", ["batch"], "seed", None)
    path = tmp_path / "page.html"
    path.write_text(Report(material).page(), encoding="utf-8")
    size = {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        open_page(browser, path.as_uri())
        browser.execute_async_script("seedspread.drawAll().then(() => setTimeout(arguments[0], 300))")
        figure = browser.find_element(By.CSS_SELECTOR, "figure[id$=-spread]")
        names = browser.execute_script(
            "return [...arguments[0].querySelectorAll('.panel')[0].querySelectorAll('.xtick text')]"
            ".map(e => [e.textContent, e.getBoundingClientRect().left, e.getBoundingClientRect().right])",
            figure,
        )
        assert [name for name, *_ in names] == ["margin =0.1713", "margin =0.2917", "margin =0.4719"]
        ends = "return [...document.querySelectorAll('.panel text')].map(e => e.getBoundingClientRect())"
        boxes = browser.execute_script(ends + ".map(b => [b.left, b.right, b.width]).filter(b => b[2])")
        assert [box for box in boxes if not 0 <= box[0] < box[1] <= 390] == []
        style = "return getComputedStyle(document.querySelector('tbody th.whole')).whiteSpace"
        assert browser.execute_script(style) == "nowrap"  # not one word wide
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


# Contrast of colors as browsers write them, by WCAG's formula; transparent ones lie on the page.
CONTRAST = """
const rgb = (s) => {
  const hex = s.trim().match(/^#(..)(..)(..)$/);
  return hex ? hex.slice(1).map((h) => parseInt(h, 16)) : s.match(/[\\d.]+/g).map(Number);
};
const on = (f, b, opacity) => [0, 1, 2].map((i) => f[i] * opacity + b[i] * (1 - opacity));
const light = (c) => {
  const [r, g, b] = c.map((v) => (v <= 10 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
};
const contrast = (front, back, opacity = 1) => {
  const [a, b] = [light(on(rgb(front), rgb(back), opacity)), light(rgb(back).slice(0, 3))];
  return Math.max(a, b) / Math.min(a, b);
};
const paper = getComputedStyle(document.body).backgroundColor;
"""


@contextmanager
def scheme(browser: webdriver.Chrome, name: str, media: str = "") -> Iterator[None]:
    features = [{"name": "prefers-color-scheme", "value": name}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_and_dots_stand_out_from_the_page(browser: webdriver.Chrome, tmp_path: Path, name: str) -> None:
    material = load_table(numeric_table(tmp_path), "accuracy", "margin", "0.1713", ["batch"], "seed", None)
    (tmp_path / "page.html").write_text(Report(material).page(), encoding="utf-8")
    with scheme(browser, name):
        open_page(browser, (tmp_path / "page.html").as_uri())
        texts = browser.execute_script(
            CONTRAST + "const of = (n) => getComputedStyle(document.body).getPropertyValue(n);"
            "return ['--ink', '--soft', '--accent'].flatMap((a) => ['--paper', '--card', '--warn']"
            ".map((b) => [a, b, contrast(of(a), of(b))]))"
        )
        assert [found for found in texts if found[2] < 4.5] == []
        dots = browser.execute_script(
            CONTRAST + "return [...arguments[0].querySelectorAll('path.point')].map(getComputedStyle)"
            ".map((s) => [s.fill, contrast(s.fill, paper, s.opacity), s.stroke === paper])",
            spread(browser),
        )
        assert len(dots) >= 30
        assert [dot for dot in dots if dot[1] < 3] == []
        assert sum(dot[2] for dot in dots) == 30  # each run's rim


def test_the_keyboard_reaches_everything_and_shows_where_it_is(browser: webdriver.Chrome, page: Path) -> None:
    with scheme(browser, "dark"):
        open_page(browser, page.as_uri())
        browser.execute_async_script("seedspread.drawAll().then(arguments[0])")
        browser.execute_script(
            "const all = [...document.querySelectorAll('a[href], button, summary, [tabindex]')];"
            "window.left = new Set(all.filter((e) => e.checkVisibility({contentVisibilityAuto: true})));"
        )
        script = (
            CONTRAST + "const e = document.activeElement, s = getComputedStyle(e); window.left.delete(e);"
            "return e === document.body ? null : [e.className, e.textContent.slice(0, 30),"
            "s.outlineStyle === 'solid' && contrast(s.outlineColor, paper)]"
        )
        stops: list[list[Any]] = []
        while len(stops) < 500:
            ActionChains(browser).send_keys(Keys.TAB).perform()
            if (stop := browser.execute_script(script)) is None:
                break
            stops.append(stop)
        assert stops[0][0] == "skip"
        assert [stop for stop in stops if stop[2] < 3] == []
        assert browser.execute_script("return [...window.left].map((e) => e.outerHTML.slice(0, 99))") == []


def test_two_keys_lead_from_the_answer_to_its_runs(browser: webdriver.Chrome, page: Path) -> None:
    open_page(browser, page.as_uri())
    here = "return document.activeElement.closest('figure, section')?.id"
    for link, place in ((".skip", "-spread"), (".beside a", "-per-seed")):
        browser.execute_script(f"document.querySelector('{link}').focus()")
        ActionChains(browser).send_keys(Keys.ENTER).pause(0.2).send_keys(Keys.TAB).perform()
        assert browser.execute_script(here).endswith(place)


def test_many_seeds_and_long_names_are_whole(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """On the screen every group's name, on paper every run."""
    rng = np.random.default_rng(0)
    name = "a group that has a rather long name"
    rows = [{"group": g, "seed": s, "accuracy": rng.normal(80, 1)} for g in (name, *"bc") for s in range(40)]
    pd.DataFrame(rows).to_csv(tmp_path / "many.csv", index=False)
    material = load_table(tmp_path / "many.csv", "accuracy", "group", "b", [], "seed", None)
    (tmp_path / "page.html").write_text(Report(material).page(), encoding="utf-8")
    open_page(browser, (tmp_path / "page.html").as_uri())
    ticks = "return [...arguments[0].querySelectorAll('.panel')[0].querySelectorAll('.xtick text')]"
    shown = browser.execute_script(ticks + ".filter(e => e.checkVisibility({visibilityProperty: true}))"
        ".map(e => [...e.querySelectorAll('tspan')].map(t => t.textContent).join(' ') || e.textContent)",
        spread(browser))  # fmt: skip
    assert set(shown) == {name, *"bc"}
    size = {"width": 690, "height": 980, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        with scheme(browser, "dark", "print"):
            browser.execute_script("dispatchEvent(new Event('beforeprint'))")
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 690
            assert browser.execute_script(CONTRAST + "return paper") == "rgb(255, 255, 255)"
            browser.execute_script("dispatchEvent(new Event('afterprint'))")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_short_folds_are_open_on_paper(browser: webdriver.Chrome, page: Path) -> None:
    open_page(browser, page.as_uri())
    shut = "return [...document.querySelectorAll('details.fold:not([open]) h3')].map((h) => h.textContent)"
    before = browser.execute_script(shut)
    assert {"The folder of each run", "Every parameter"} < set(before)
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script(shut) == ["Every parameter"]  # more than a page
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert browser.execute_script(shut) == before


def test_paper_has_every_figure_even_if_none_was_looked_at(browser: webdriver.Chrome, page: Path) -> None:
    open_page(browser, page.as_uri())
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        browser.execute_script("dispatchEvent(new Event('beforeprint'))")
        sizes = browser.execute_script(
            "return [...document.querySelectorAll('.panel')].filter(p => p.clientHeight)"
            ".map(p => [p.querySelector('.main-svg').getBoundingClientRect().width, p.clientHeight])"
        )
        assert len(sizes) >= 8
        assert all(200 < width < 400 and height > 50 for width, height in sizes)
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        browser.execute_script("dispatchEvent(new Event('afterprint'))")


def test_the_contents_stay_in_view_and_say_where_one_is(browser: webdriver.Chrome, page: Path) -> None:
    open_page(browser, page.as_uri())
    here = "return document.querySelector('nav a[aria-current]').textContent"
    assert browser.execute_script(here) == "Answer"
    browser.execute_async_script("seedspread.drawAll().then(arguments[0])")
    browser.execute_script("scrollTo({top: document.body.scrollHeight, behavior: 'instant'})")
    wait(lambda: browser.execute_script(here) == "Provenance")
    top = browser.execute_script("return document.querySelector('nav').getBoundingClientRect().top")
    assert 0 < top < 100


def test_the_data_of_a_figure_are_downloaded(browser: webdriver.Chrome, page: Path, tmp_path: Path) -> None:
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    open_page(browser, page.as_uri())
    browser.execute_script("document.querySelector('button[data-download]').click()")
    path = wait(lambda: next(tmp_path.glob("*-spread.csv"), None))
    wait(lambda: path.read_text().startswith("panel,series,kind,x,y,low,high,label\n"))


def test_the_live_page_shows_a_run_that_ends_while_it_is_open(
    browser: webdriver.Chrome, serve: Serve, tmp_path: Path
) -> None:
    plan = made_store(tmp_path, seeds=3)
    path = plan.store.folder(plan.runs[0].key) / "result.json"
    result = path.read_text()
    unfinished(plan, 0)
    live = LiveReport(lambda: Report(material_of(tmp_path)), lambda: signature(tmp_path))
    server = serve(live)
    open_page(browser, f"http://127.0.0.1:{server.server_port}/")
    assert "1 of 12 runs" in browser.execute_script(MAIN)
    browser.execute_script("window.stays = true")
    figure = spread(browser)
    zoom = "const p = arguments[0].querySelector('.panel');"
    browser.execute_script(f"{zoom} return Plotly.relayout(p, {{'yaxis.range': [10, 20]}})", figure)
    browser.execute_script("document.querySelectorAll('#bench-factorial .sort')[1].click()")
    browser.execute_script("document.querySelectorAll('#bench-factorial .sort')[1].click()")
    browser.execute_script("document.querySelector('#bench-factorial .sort').focus()")
    path.write_text(result)
    wait(lambda: "1 of 12 runs" not in browser.execute_script(MAIN))
    assert browser.execute_script("return window.stays")  # without a reload
    assert browser.switch_to.active_element.get_attribute("class") == "sort"
    figure = spread(browser)
    assert browser.execute_script(f"{zoom} return p.layout.yaxis.range", figure) == [10, 20]
    sorting = "return document.querySelector('#bench-factorial th[aria-sort]').ariaSort"
    assert browser.execute_script(sorting) == "descending"
    severe = [e for e in log(browser, "browser") if e["level"] == "SEVERE"]
    assert severe == []
    here = f"http://127.0.0.1:{server.server_port}/"
    assert all(u.startswith((here, "data:", "blob:")) for u in requests(browser))


INJECTED = "<script>window.injected = true</script><img src=x onerror='window.injected = true'>"


def violations(browser: webdriver.Chrome) -> list[str]:
    return [e["message"] for e in log(browser, "browser") if "Content Security Policy" in e["message"]]


def test_a_script_that_gets_into_the_page_does_not_run(browser: webdriver.Chrome, page: Path) -> None:
    """Were a name ever not escaped, the page's policy would still stop it; its own scripts run."""
    worse = page.with_name("worse.html")
    worse.write_text(
        page.read_text(encoding="utf-8").replace("<main ", f"{INJECTED}<main ", 1), encoding="utf-8"
    )
    open_page(browser, worse.as_uri())
    spread(browser)
    assert browser.execute_script("return window.injected") is None
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.injected = true';"
        "document.head.append(s);"
    )
    assert browser.execute_script("return window.injected") is None
    assert len(violations(browser)) >= 3
    open_page(browser, page.as_uri())
    browser.execute_async_script("seedspread.drawAll().then(arguments[0])")
    assert violations(browser) == []


def test_the_servers_header_stops_it_without_the_pages_own_policy(
    browser: webdriver.Chrome, serve: Serve, tmp_path: Path
) -> None:
    made_store(tmp_path, seeds=2)
    live = LiveReport(lambda: Report(material_of(tmp_path)), lambda: signature(tmp_path))
    edition = live.edition()
    bare = re.sub(r"<meta http-equiv=[^>]*>", "", edition.page).replace("<main ", f"{INJECTED}<main ", 1)
    live.edition = Rarely(lambda: replace(edition, page=bare), pause=1)
    server = serve(live)
    open_page(browser, server.url)
    spread(browser)
    assert browser.execute_script("return window.injected") is None
    assert violations(browser)
