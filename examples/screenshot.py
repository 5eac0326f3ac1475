"""Save a screenshot of a page, from its top to the bottom of the element that SELECTOR matches.

python examples/screenshot.py URL PICTURE WIDTH SELECTOR
"""

import base64
import shutil
import sys
from pathlib import Path

from selenium import webdriver

url, picture, width, selector = sys.argv[1:]
options = webdriver.ChromeOptions()
options.binary_location = shutil.which("chromium") or ""
for flag in ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={width},800"):
    options.add_argument(flag)
service = webdriver.ChromeService(shutil.which("chromedriver"))
with webdriver.Chrome(options, service) as browser:
    browser.get(url)
    end = "document.querySelector(arguments[0]).getBoundingClientRect().bottom"
    height = browser.execute_script(f"return {end}", selector) + 12
    clip = {"x": 0, "y": 0, "width": int(width), "height": height, "scale": 1}
    shot = {"format": "png", "captureBeyondViewport": True, "clip": clip}
    png = browser.execute_cdp_cmd("Page.captureScreenshot", shot)["data"]
Path(picture).write_bytes(base64.b64decode(png))
