"""``whichvars watch`` in a real browser: a run of ``whichvars fit`` that is killed and resumed while its page is open.

The run ends only when the test says so, so that nothing depends on how quick the machine is. Waits have an end, and fail at once if a
process that is needed has ended.
"""

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from support.browser import screenshot

pytestmark = pytest.mark.browser
EACH, TOGETHER = (
    150,
    420,
)  # seconds, of one wait and of all; kernels may have to be compiled, and the machine may be busy
# checkpoints every half second, whatever that costs; there are two more seconds until there is a file of the name that comes first, then
# the time is up
OFTEN = """
import sys
from pathlib import Path
from whichvars.sampling import checkpoint
from whichvars.sampling.loop import Loop
checkpoint.SHARE = float("inf")
checkpoint.parse_every = lambda every: 0.5
enough = Path(sys.argv[1])
Loop._time_left = lambda self: -1.0 if enough.exists() else 2.0
from whichvars.cli import main
main(sys.argv[2:])
"""


class Patience:
    """Starts processes, waits for what they should bring about, and says what there was instead if it does not come."""

    def __init__(self, browser):
        self.browser, self.processes = browser, {}
        self.end = time.monotonic() + TOGETHER

    def start(self, name, *command, **options):
        # a shell that runs the tests in the background lets them, and what they start, ignore SIGINT
        listening = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        command = [sys.executable, *map(str, command)]
        self.processes[name] = subprocess.Popen(command, preexec_fn=listening, **options)
        return self.processes[name]

    def until(self, condition, what, needs=()):
        """What `condition` returns once it is true; an AssertionError if time is up, or if one of the processes it needs has ended."""
        begun = time.monotonic()
        while True:
            ended = [name for name in needs if self.processes[name].poll() is not None]
            found = condition()
            if found:
                return found
            waited = time.monotonic() - begun
            if ended or waited > EACH or time.monotonic() > self.end:
                raise AssertionError(
                    f"waited {waited:.0f} s in vain for {what}; {self._processes()}; {self._page()}"
                )
            time.sleep(0.2)

    def _processes(self):
        codes = {name: process.poll() for name, process in self.processes.items()}
        return "; ".join(f"{n} {'is running' if c is None else f'ended with {c}'}" for n, c in codes.items())

    def _page(self):
        return f"the page says {state(self.browser)!r}, {iterations(self.browser):,} iterations, {events(self.browser)}"


@pytest.fixture
def patience(browser):
    browser.set_page_load_timeout(EACH)
    browser.set_script_timeout(EACH)
    made = Patience(browser)
    yield made
    for process in made.processes.values():
        process.kill()
        process.wait()


def state(browser):
    return browser.execute_script("return document.getElementById('state')?.dataset.state")


def iterations(browser):
    script = "return [...document.querySelectorAll('.facts div')].map(d => d.textContent.trim()).join('|')"
    found = re.search(r"iterations\s*([\d,]+)", browser.execute_script(script))
    return int(found[1].replace(",", "")) if found else 0


def events(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('.events li')].map(e => e.textContent)"
    )


def test_a_run_that_is_killed_and_resumed(browser, patience, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 40)), columns=[f"x{j}" for j in range(40)])
    table.assign(y=table["x3"] + rng.normal(size=100)).to_csv(tmp_path / "d.csv", index=False)
    out, enough, printed = tmp_path / "out", tmp_path / "enough", tmp_path / "printed"
    fit = ["fit", tmp_path / "d.csv", "-y", "y", "--out", out, "--quiet", "--no-report", "--threads", "1"]
    length = ["--sampler", "add-delete-swap", "--budget", "1h"]
    first = patience.start("fit", "-c", OFTEN, enough, *fit, *length)
    patience.until(
        lambda: list((out / "checkpoint").glob("replicate-*.npz")), "a first checkpoint", needs=["fit"]
    )
    with printed.open("w") as file:
        watch = patience.start("watch", "-m", "whichvars", "watch", out, stdout=file)
    address = patience.until(
        lambda: re.match(r"http://127\.0\.0\.1:\S+(?=\n)", printed.read_text()), "an address", needs=["watch"]
    )[0]

    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(address)
    both = ["fit", "watch"]
    patience.until(lambda: state(browser) == "running", "the run on the page", needs=both)
    marks = ".chart .mark"
    patience.until(lambda: browser.find_elements("css selector", marks), "probabilities", needs=both)
    before = iterations(browser)
    patience.until(lambda: iterations(browser) > before, "more iterations", needs=both)
    names = browser.execute_script("return document.querySelector('.chart .names li').textContent")
    assert names == "x3"
    assert browser.execute_script("return document.documentElement.scrollWidth") == 1200
    screenshot(browser, "watch-running")

    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    patience.until(lambda: state(browser) == "stopped", "the end of the process", needs=["watch"])
    assert "whichvars resume" in browser.find_element("id", "state").text
    screenshot(browser, "watch-killed")

    resume = ["resume", out, "--quiet", "--no-report", "--threads", "1"]
    second = patience.start("resume", "-c", OFTEN, enough, *resume)
    patience.until(lambda: state(browser) == "running", "the resumed run", needs=["resume", "watch"])
    assert any("resumed" in event for event in events(browser))
    before = iterations(browser)
    patience.until(lambda: iterations(browser) > before, "more iterations of it", needs=["resume", "watch"])
    enough.touch()
    patience.until(lambda: state(browser) == "done", "the results", needs=["watch"])
    patience.until(lambda: second.poll() is not None, "the end of resume")
    assert second.returncode in (0, 3)
    told = events(browser)
    assert [any(word in event for event in told) for word in ("sampled", "killed", "resumed", "done")] == [
        True
    ] * 4
    screenshot(browser, "watch-done")

    settings = json.loads((out / "settings.json").read_text())
    assert iterations(browser) == settings["result"]["iterations"]
    assert not browser.get_log("browser"), "nothing is written to the console"
    seen = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {e["params"]["request"]["url"] for e in seen if e["method"] == "Network.requestWillBeSent"}
    assert asked
    assert all(url.startswith((address, "data:")) for url in asked), "nothing leaves the machine"

    watch.send_signal(signal.SIGINT)
    patience.until(lambda: watch.poll() is not None, "the end of watch")
    assert watch.returncode == 0
    patience.until(
        lambda: browser.find_element("id", "gone").is_displayed(), "the page to say that nobody answers"
    )
    browser.get("about:blank")
