"""The dashboard, as a browser shows it. Pictures of it go to build/reports."""

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from local_server import PATIENCE, Pool, check_trained
from local_server import wait_until as wait_until_so
from playwright.sync_api import Error, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "build/release/tests/dashboard_demo"
REPORTS = ROOT / "build/reports"
CHROMIUM = "/usr/bin/chromium"
expect.set_options(timeout=20_000)
WIDE = {"width": 1360, "height": 900}
PHONE = {"width": 360, "height": 740}

# Every text that can be seen and whose contrast with its ground is below what WCAG AA asks for.
FAINT = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground_of = (node) => {
    const box = node.closest(".stage")?.querySelector(".box");
    if (box && node !== box) return parse(getComputedStyle(box).fill);
    const colour = parse(getComputedStyle(node).backgroundColor);
    return colour.length === 3 || colour[3] > 0 ? colour : ground_of(node.parentElement);
  };
  const faint = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.checkVisibility() || node.tagName === "title") continue;
    if (node.matches(".on-flag")) continue;
    const style = getComputedStyle(node);
    const ink = parse(node instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(ground_of(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push(`${node.textContent}: ${ratio.toFixed(2)}`);
  }
  return faint;
}"""


class Demo:
    """A server of its own process, whose state is made up."""

    def __init__(self, scene="busy", address="127.0.0.1:0", step_ms=100):
        self.process = subprocess.Popen(
            [DEMO, address, scene, str(step_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self.process.stdout.readline().strip()
        assert self.url, "the demonstration did not start"

    @property
    def address(self):
        return self.url.removeprefix("http://").removesuffix("/")

    def state(self):
        with urlopen(self.url + "api/state", timeout=20) as answer:
            return json.load(answer)

    def provider(self, name):
        return next(each for each in self.state()["providers"] if each["name"] == name)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(20)


@pytest.fixture(scope="module")
def browser():
    # Chromium's own sandbox does not start for root.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield started
        started.close()


@pytest.fixture(scope="module")
def busy():
    demo = Demo()
    yield demo
    demo.stop()


@pytest.fixture
def open_page(browser):
    """Opens a page; at the end, none of them may have had an error."""
    contexts, faults = [], []

    def on_failure(request):
        if request.failure != "net::ERR_ABORTED":  # as by a reload
            faults.append(f"failed: {request.url}")

    def open_(url, may_fail=False, **options):
        context = browser.new_context(**{"viewport": WIDE, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        if not may_fail:
            page.on("console", lambda m: faults.append(f"console: {m.text}"))
            page.on("requestfailed", on_failure)
        page.on("pageerror", lambda e: faults.append(f"error: {e}"))
        page.on("dialog", lambda d: faults.append(f"dialog: {d.message}"))
        page.on("request", lambda r: r.url.startswith(url) or faults.append(f"outside: {r.url}"))
        page.goto(url)
        expect(page.locator("#facts li").first).to_be_visible()
        found = list(faults)
        assert found == []
        return page

    yield open_
    found = list(faults)
    for context in contexts:
        context.close()
    assert found == []


def ask(page, expression):
    """As a function: the page's policy forbids what Playwright makes of an expression."""
    return page.evaluate(f"() => ({expression})")


def wait_until(page, expression):
    deadline = time.monotonic() + 20
    while not ask(page, expression):
        assert time.monotonic() < deadline, f"waited in vain for {expression}"
        page.wait_for_timeout(50)


def assert_no_sideways_scrolling(page):
    # Pictures are drawn anew after their frame has changed.
    wait_until(page, "document.documentElement.scrollWidth <= innerWidth")


def picture(page, name):
    REPORTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=REPORTS / f"dashboard-{name}.png", full_page=True)


def log_in(page):
    page.get_by_role("button", name="Log in").click()
    page.get_by_label("Secret").fill("demo")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


def row(page, name):
    return page.locator("#providers tr").filter(has=page.get_by_text(name, exact=True))


def test_shows_the_jobs_stages_and_providers(open_page, busy):
    page = open_page(busy.url)
    state = busy.state()
    job = next(each for each in state["jobs"] if each["phase"] == "running")
    stages = [stage for cluster in job["clusters"] for stage in cluster["stages"]]
    assert len(stages) == 5
    expect(page.locator("#clusters .stage")).to_have_count(5)
    for box, stage in zip(page.locator("#clusters .stage").all(), stages, strict=True):
        expect(box).to_contain_text(f"{stage['role']} · stage {stage['stage']}")
        expect(box).to_contain_text(stage["name"])
        expect(box.locator(".word")).to_have_text(re.compile("computes|waits|sends|is silent"))
        expect(box).to_contain_text(re.compile(r"\d [GM]B of \d+ GB"))
    expect(page.locator(".link.relayed")).to_have_count(1)
    expect(page.locator("#job-title")).to_contain_text("digits-cnn")
    for each in state["jobs"]:
        card = page.locator("#jobs li").filter(has_text=each["name"])
        expect(card).to_contain_text(each["phase"])
        expect(card).to_contain_text(each["reason"])
    for each in state["providers"]:
        expect(row(page, each["name"])).to_contain_text(re.compile("present|silent|away"))
    expect(page.locator("#notes")).to_contain_text("femi-nuc is lost with stage 1 of cluster 2")
    expect(page.locator("#lines")).to_contain_text("hana-tower is enrolled")
    expect(page.locator("#stats")).to_contain_text("Restore point")
    expect(page.locator(".chart .curve")).to_have_count(2)


def test_what_changes_is_seen(open_page, busy):
    page = open_page(busy.url)
    version = page.locator("#stats dd").first
    before = version.inner_text()
    expect(version).not_to_have_text(before)
    shares = (
        "[...document.querySelectorAll('.share')].map((bar) => bar.getAttribute('width')).join()"
    )
    was = ask(page, shares)
    wait_until(page, f"{shares} !== {json.dumps(was)}")
    for silent in (1, 0, 1):
        wait_until(page, f"document.querySelectorAll('#clusters .absent').length === {silent}")


def test_an_update_leaves_the_focus_where_it_is(open_page, busy):
    page = open_page(busy.url)
    page.locator("#jobs button").nth(1).focus()
    version = page.locator("#jobs b").first
    before = version.inner_text()
    expect(version).not_to_have_text(before)
    assert ask(page, "document.activeElement.matches('#jobs li:nth-child(2) button')")


def test_comes_back_when_the_server_does(open_page):
    first = Demo()
    page = open_page(first.url, may_fail=True)
    log_in(page)
    first.stop()
    expect(page.locator("#banner")).to_be_visible()
    expect(page.locator("#banner")).to_contain_text("lost")
    picture(page, "lost")
    second = Demo(address=first.address)
    expect(page.locator("#banner")).to_be_hidden()
    before = page.locator("#stats dd").first.inner_text()
    expect(page.locator("#stats dd").first).not_to_have_text(before)
    # The session went with the server that gave it.
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    second.stop()


def test_names_stay_text(open_page):
    demo = Demo("hostile", step_ms=1_000_000)
    page = open_page(demo.url)
    state = demo.state()
    names = [each["name"] for each in state["providers"]]
    assert len(names) > 50
    shown = page.locator("#providers th span:first-child")
    expect(shown).to_have_count(len(names))
    assert shown.evaluate_all("(all) => all.map((each) => each.textContent)") == names
    notes = page.locator("#lines li span").evaluate_all("(all) => all.map((e) => e.textContent)")
    for line in state["lines"]:
        assert line["text"] in notes
    for job in page.locator("#jobs button").all():
        job.click()
    page.locator("#jobs button").first.click()
    page.locator("#clusters .stage").first.hover()
    picture(page, "hostile")
    assert ask(page, "window.ran") is None
    assert ask(page, "document.cookie") == ""
    tags = "script, iframe, object, embed, base, style, meta, link, form, marquee, video, img"
    found = ask(page, f"[...document.querySelectorAll('{tags}')].map((e) => e.tagName)")
    assert sorted(found) == [
        "FORM",
        "FORM",
        "IMG",
        "LINK",
        "LINK",
        "META",
        "META",
        "META",
        "SCRIPT",
    ]
    page.set_viewport_size(PHONE)
    assert_no_sideways_scrolling(page)
    demo.stop()


def test_the_browser_would_not_run_them_either(open_page, busy):
    page = open_page(busy.url, may_fail=True)
    with pytest.raises(Error, match="TrustedHTML"):
        page.evaluate("() => document.body.innerHTML = '<img src=x onerror=window.ran=1>'")
    with pytest.raises(Error, match="TrustedScript"):
        page.evaluate("() => setTimeout('window.ran = 1')")
    page.evaluate("""() => {
      const button = document.createElement("button");
      button.setAttribute("style", "color: red");
      document.body.append(button);
    }""")
    assert ask(page, "window.ran") is None
    assert ask(page, "getComputedStyle(document.body.lastChild).color") != "rgb(255, 0, 0)"


def test_the_owner_pauses_and_resumes(open_page, busy):
    page = open_page(busy.url, may_fail=True)  # a refusal is an error on the console
    pause = row(page, "femi-nuc").get_by_role("button", name="Pause")
    expect(pause).to_be_hidden()
    page.get_by_role("button", name="Log in").click()
    page.get_by_label("Secret").fill("a guess")
    page.keyboard.press("Enter")
    expect(page.locator("#login-fault")).to_have_text("This is not the owner's secret.")
    picture(page, "login")
    page.get_by_role("button", name="Close").click()
    log_in(page)
    pause.click()
    expect(row(page, "femi-nuc").locator(".chip")).to_have_text("paused")
    assert busy.provider("femi-nuc")["is_paused"]
    row(page, "femi-nuc").get_by_role("button", name="Resume").click()
    expect(row(page, "femi-nuc").locator(".chip")).to_be_hidden()
    assert not busy.provider("femi-nuc")["is_paused"]
    page.reload()
    expect(pause).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(pause).to_be_hidden()


def test_the_owner_is_asked_before_something_is_gone(open_page):
    demo = Demo()
    page = open_page(demo.url, may_fail=True)
    log_in(page)
    remove = row(page, "hana-tower").get_by_role("button", name="Remove")
    remove.click()
    page.get_by_role("dialog").get_by_role("button", name="No").click()
    assert demo.provider("hana-tower")
    remove.click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row(page, "hana-tower")).to_have_count(0)
    row(page, "ada-desktop").get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator("#toast")).to_have_text("Ada-desktop holds a stage; pause it first.")
    page.get_by_role("button", name="Cancel job").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel it").click()
    expect(page.locator("#jobs li").filter(has_text="digits-cnn")).to_contain_text("cancelled")
    page.locator("#jobs button").filter(has_text="digits-mlp").click()
    page.get_by_role("button", name="Forget job").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget it").click()
    expect(page.locator("#jobs")).not_to_contain_text("digits-mlp")
    demo.stop()


def test_charts_tell_their_values(open_page, busy):
    page = open_page(busy.url)
    loss = page.locator("#loss")
    expect(loss.locator(".curve")).to_be_visible()
    loss.hover()
    expect(loss.locator(".on-flag")).to_have_text(re.compile(r"^[\d.]+ at [\d,]+$"))
    page.mouse.move(0, 0)
    expect(loss.locator(".on-flag")).to_have_count(0)
    loss.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(loss.locator(".on-flag")).to_be_visible()
    expect(loss).to_have_attribute("aria-label", re.compile(r"^Loss: [\d.]+ at version 0, "))
    height = (
        "document.querySelector('#loss .curve').getAttribute('points').split(' ')[30].split(',')[1]"
    )
    before = float(ask(page, height))
    page.get_by_label("logarithmic").check()
    assert abs(float(ask(page, height)) - before) > 1


def test_works_without_a_mouse(open_page, busy):
    page = open_page(busy.url)
    page.locator("#jobs button").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#job-title")).to_contain_text("sentiment-gru")
    expect(page.locator("#job-reason")).to_have_text("waits for 4 free providers, 1 is free")
    assert page.url.endswith("#job=5")
    page.reload()
    expect(page.locator("#job-title")).to_contain_text("sentiment-gru")
    unnamed = ask(
        page,
        """[...document.querySelectorAll("button, input, svg, table, section")]
      .filter((e) => e.checkVisibility())
      .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length || e.ariaHidden))
      .map((e) => e.outerHTML)""",
    )
    assert unnamed == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_both_be_read(open_page, busy, scheme):
    page = open_page(busy.url, color_scheme=scheme)
    expect(page.locator(".chart .curve")).to_have_count(2)
    assert page.evaluate(FAINT) == []
    ground = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert (ask(page, ground) < 64) == (scheme == "dark")
    picture(page, scheme)
    other = "light" if scheme == "dark" else "dark"
    switch = page.locator("#theme")
    while switch.inner_text() != f"Theme: {other}":
        switch.click()
    assert (ask(page, ground) < 64) == (other == "dark")
    page.reload()
    expect(switch).to_have_text(f"Theme: {other}")
    assert (ask(page, ground) < 64) == (other == "dark")


@pytest.mark.parametrize("width", [320, 360, 640, 900, 1024, 1920])
def test_fits_every_screen(open_page, busy, width):
    page = open_page(busy.url, viewport={"width": width, "height": 740})
    expect(page.locator(".chart .curve")).to_have_count(2)
    log_in(page)
    assert_no_sideways_scrolling(page)
    sticking_out = ask(
        page,
        """[...document.querySelectorAll(".stage .box, .chart svg, td")]
      .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.outerHTML)""",
    )
    assert sticking_out == []
    if width == PHONE["width"]:
        picture(page, "phone")


def test_says_what_to_do_when_nobody_is_there(open_page):
    demo = Demo("empty")
    page = open_page(demo.url)
    expect(page.locator("#no-jobs")).to_contain_text("ravnest.fit(")
    expect(page.locator("#no-providers")).to_contain_text("ravnest join 127.0.0.1:")
    expect(page.locator("#job")).to_be_hidden()
    expect(page.locator("#providers-table")).to_be_hidden()
    picture(page, "empty")
    demo.stop()


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A server at work, in place of one that is made up."""
    folder = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAVNEST_HOME", str(folder / "home"))
        pool = Pool(folder, http="127.0.0.1:0")
        try:
            yield pool
        finally:
            pool.settle()
            pool.end()


def url_of(pool):
    wait_until_so(lambda: urls_of(pool), "an address")
    return urls_of(pool)[-1] + "/"


def urls_of(pool):
    """Of the servers that there were, too, which wrote to the same log."""
    return re.findall(r"dashboard at (\S+)", pool.server.said())


def curve_of(pool):
    with urlopen(f"{url_of(pool)}api/jobs/{pool.job()['id']}", timeout=20) as answer:
        return json.load(answer)["curve"]


@contextlib.contextmanager
def held_in(pool, epoch, **options):
    """A training that waits in the middle of an epoch, after a loss was reported earlier."""
    gate, has_come = threading.Event(), threading.Event()

    def wait():
        has_come.set()
        gate.wait(PATIENCE)

    def wait_for_point():
        wait_until_so(lambda: curve_of(pool), "a loss is reported")

    fit = pool.fit(epochs=6, at={1: wait_for_point, epoch: wait}, **options)
    try:
        assert has_come.wait(PATIENCE), "the training has not come so far"
        yield fit
    finally:
        gate.set()


def test_a_server_says_that_it_is_well_and_how_much_it_does(live):
    url = url_of(live)
    with urlopen(url + "healthz", timeout=20) as answer:
        assert answer.status == 200
    live.lend(2)
    with urlopen(url + "metrics", timeout=20) as answer:
        text = answer.read().decode()
    family = ""
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            _, word, family, *rest = line.split(" ", 3)
            assert word in ("HELP", "TYPE") and rest, line
            continue
        sample = re.fullmatch(r'(\w+)(\{\w+="[^"\n]*"(?:,\w+="[^"\n]*")*\})? (\S+)', line)
        assert sample and sample[1].startswith(family), line
        samples[sample[1] + (sample[2] or "")] = float(sample[3])
    assert samples['ravnest_providers{presence="present"}'] == 2


def test_a_real_training_is_shown_as_it_goes(open_page, live):
    names = live.lend(4)
    page = open_page(url_of(live))
    with held_in(live, epoch=3) as fit:
        job = live.job()
        card = page.locator("#jobs li").first
        expect(card).to_contain_text("running")
        expect(page.locator("#clusters .stage")).to_have_count(3)
        stages = job["clusters"][0]["stages"]
        for box, stage in zip(page.locator("#clusters .stage").all(), stages, strict=True):
            expect(box).to_contain_text(f"{stage['role']} · stage {stage['stage']}")
            expect(box).to_contain_text(stage["name"])
            expect(box).to_contain_text(re.compile(r"\d MB of 4 GB"))  # as they lend
        for name in names:
            expect(row(page, name)).to_contain_text("present")
        points = "document.querySelector('#loss .curve').getAttribute('points').split(' ').length"
        expect(page.locator("#loss .curve")).to_be_visible()
        wait_until(page, f"{points} > 1")
        picture(page, "live")
        lost = live.holder(1)
        live.boxes[lost].send(signal.SIGKILL)
        expect(page.locator("#notes")).to_contain_text(f"{lost} is lost with stage 1")
        expect(page.locator("#notes")).to_contain_text("takes stage 1")
        expect(row(page, lost)).to_contain_text("away")
        page.set_viewport_size(PHONE)
        assert_no_sideways_scrolling(page)
        picture(page, "live-phone")
        page.set_viewport_size(WIDE)
    check_trained(fit)
    expect(card).to_contain_text("done")
    expect(page.locator("#notes")).to_contain_text("It is done")
    page.close()
    last = live.job()["last"]
    live.server.end()
    before = len(urls_of(live))
    live.serve()
    wait_until_so(lambda: len(urls_of(live)) > before, "the dashboard's new address")
    page = open_page(url_of(live))
    expect(page.locator("#jobs li").first).to_contain_text("done")
    expect(page.locator("#loss .curve")).to_be_visible()  # of a job of before the restart
    assert live.job()["last"] == last


def test_only_the_owner_cancels_a_real_job(open_page, live):
    live.lend(2)
    url = url_of(live)
    page = open_page(url, may_fail=True, color_scheme="dark")
    with held_in(live, epoch=2, providers=2) as fit:
        number = live.job()["id"]
        page.goto(f"{url}#job={number}")
        expect(page.locator("#job-title")).to_be_visible()
        cancel = page.get_by_role("button", name="Cancel job")
        expect(cancel).to_be_hidden()
        status = page.evaluate(
            """(path) => fetch(path, {
              method: "POST", headers: {"Content-Type": "application/json"}, body: "{}",
            }).then((answer) => answer.status)""",
            f"api/jobs/{number}/cancel",
        )
        assert status in (401, 403)
        assert live.job()["phase"] == "running"
        page.get_by_role("button", name="Log in").click()
        page.get_by_label("Secret").fill((live.data / "owner.secret").read_text().strip())
        page.keyboard.press("Enter")
        cancel.click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel it").click()
        expect(page.locator("#jobs li").first).to_contain_text("cancelled")
        picture(page, "live-cancelled")
    with pytest.raises(RuntimeError, match="is cancelled"):
        fit.result()
