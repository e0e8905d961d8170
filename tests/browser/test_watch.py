"""``whichvars watch`` in a real browser: a run of ``whichvars fit`` that is killed and resumed while its page is open."""

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
PATIENCE = 150  # seconds, as kernels may have to be compiled
# checkpoints every half second, whatever that costs
OFTEN = """
import sys
from whichvars.sampling import checkpoint, plan
checkpoint.SHARE = float("inf")
checkpoint.parse_every = lambda every: 0.5
from whichvars.cli import main
main(sys.argv[1:])
"""


@pytest.fixture
def started():
    """Starts processes, and ends those that are left."""
    processes = []

    def start(*command, **options):
        processes.append(subprocess.Popen([sys.executable, *map(str, command)], **options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"waited in vain for {what}")


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


def test_a_run_that_is_killed_and_resumed(browser, started, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 40)), columns=[f"x{j}" for j in range(40)])
    table.assign(y=table["x3"] + rng.normal(size=100)).to_csv(tmp_path / "d.csv", index=False)
    out = tmp_path / "out"
    fit = ["fit", tmp_path / "d.csv", "-y", "y", "--out", out, "--quiet", "--no-report", "--threads", "1"]
    length = ["--sampler", "add-delete-swap", "--budget", "60s"]
    first = started("-c", OFTEN, *fit, *length)
    wait_for(lambda: list((out / "checkpoint").glob("replicate-*.npz")), "a first checkpoint")
    watch = started("-m", "whichvars", "watch", out, stdout=subprocess.PIPE, text=True)
    address = watch.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:")

    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(address)
    wait_for(lambda: state(browser) == "running", "the run on the page")
    wait_for(lambda: browser.find_elements("css selector", ".chart .mark"), "probabilities")
    before = iterations(browser)
    wait_for(lambda: iterations(browser) > before, "more iterations")
    names = browser.execute_script("return document.querySelector('.chart .names li').textContent")
    assert names == "x3"
    assert browser.execute_script("return document.documentElement.scrollWidth") == 1200
    screenshot(browser, "watch-running")

    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    wait_for(lambda: state(browser) == "stopped", "the end of the process")
    assert "whichvars resume" in browser.find_element("id", "state").text
    screenshot(browser, "watch-killed")

    second = started("-c", OFTEN, "resume", out, "--quiet", "--no-report", "--threads", "1")
    wait_for(lambda: state(browser) == "running", "the resumed run")
    assert any("resumed" in event for event in events(browser))
    wait_for(lambda: state(browser) == "done", "the results")
    assert second.wait() in (0, 3)
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
    assert watch.wait() == 0
    wait_for(lambda: browser.find_element("id", "gone").is_displayed(), "the page to say that nobody answers")
    browser.get("about:blank")
