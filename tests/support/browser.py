"""Pictures of pages as a browser shows them."""

import base64
from pathlib import Path

SCREENSHOTS = Path(__file__).parents[1] / "browser" / "screenshots"


def screenshot(browser, name):
    SCREENSHOTS.mkdir(exist_ok=True)
    size = browser.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    (SCREENSHOTS / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))
