"""A real browser for the pages: Chromium, driven by selenium."""

from contextlib import contextmanager
from pathlib import Path

#: Names of the browser and of its driver, in Debian and elsewhere.
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"),
    *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--window-size=1400,1000"),
    "--hide-scrollbars",
)


class Browser:
    """Chromium and its console."""

    def __init__(self, driver) -> None:
        self.driver = driver

    def open(self, page: Path) -> None:
        """Open a page from the disk, without a network."""
        self.set_network(on=False)
        self.driver.get(page.resolve().as_uri())

    def visit(self, address: str) -> None:
        """Open a page of a server on this computer."""
        self.set_network(on=True)
        self.driver.get(address)

    def set_network(self, on: bool) -> None:
        """Switch the network on or off, and clear the console."""
        self.driver.get_log("browser")
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {"offline": not on, "latency": 0, "downloadThroughput": -on, "uploadThroughput": -on},
        )

    def js(self, expression: str, *arguments):
        """Return the value of a JavaScript expression."""
        return self.driver.execute_script(f"return ({expression})", *arguments)

    def scheme(self, name: str) -> None:
        """Set the preferred colour scheme: "light" or "dark"."""
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": name}]},
        )

    def set_screen(self, width: int, height: int, mobile: bool = False) -> None:
        """Emulate a screen or paper of this size in pixels, until `emulating` ends."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1 + mobile}
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {**size, "mobile": mobile}
        )

    @contextmanager
    def emulating(self, width: int, height: int, media: str = "", mobile: bool = False):
        """Emulate a screen of this size or, with media "print", paper."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
        self.set_screen(width, height, mobile)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    def press(self, *keys: str) -> None:
        """Press keys, one after another."""
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def point_at(self, element, x: float | None = None, y: float | None = None) -> None:
        """Move the pointer to the centre of an element, or x and y pixels into it."""
        from selenium.webdriver.common.action_chains import ActionChains

        box = element.rect
        dx = 0 if x is None else round(x - box["width"] / 2)
        dy = 0 if y is None else round(y - box["height"] / 2)
        ActionChains(self.driver, duration=0).move_to_element_with_offset(element, dx, dy).perform()

    def find(self, selector: str):
        """Return the first element that matches a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector: str) -> list:
        """Return all elements that match a CSS selector."""
        return self.driver.find_elements("css selector", selector)

    def complaints(self) -> list[str]:
        """Return the console's warnings and errors since the page was opened."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("WARNING", "SEVERE")
        ]

    def screenshot(self, path: Path) -> Path:
        """Write a screenshot as a PNG."""
        self.driver.save_screenshot(str(path))
        return path


def contrast(one, other):
    """Return WCAG's contrast ratio of two colours (channels from 0 to 255)."""

    def luminance(colour):
        linear = [c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
