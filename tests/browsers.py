"""A real browser for the pages: Chromium without a network, driven by selenium."""

from pathlib import Path

#: Names of the browser and of its driver, in Debian and elsewhere.
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--window-size=1400,1000",
    "--hide-scrollbars",
)


class Browser:
    """Chromium, and what its console said."""

    def __init__(self, driver) -> None:
        self.driver = driver

    def open(self, page: Path) -> None:
        """Open a page from the disk, with the network switched off."""
        self._network(on=False)
        self.driver.get(page.resolve().as_uri())

    def visit(self, address: str) -> None:
        """Open a page of this computer's."""
        self._network(on=True)
        self.driver.get(address)

    def _network(self, on: bool) -> None:
        self.driver.get_log("browser")  # forget what earlier pages said
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {"offline": not on, "latency": 0, "downloadThroughput": -on, "uploadThroughput": -on},
        )

    def js(self, expression: str, *arguments):
        """Return what an expression of the page's language gives."""
        return self.driver.execute_script(f"return ({expression})", *arguments)

    def scheme(self, name: str) -> None:
        """Choose "light" or "dark", as the reader's system would."""
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": name}]},
        )

    def press(self, *keys: str) -> None:
        """Press keys, one after another."""
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def point_at(self, element, x: float | None = None, y: float | None = None) -> None:
        """Move the pointer to an element's middle, or x and y pixels into it."""
        from selenium.webdriver.common.action_chains import ActionChains

        box = element.rect
        dx = 0 if x is None else round(x - box["width"] / 2)
        dy = 0 if y is None else round(y - box["height"] / 2)
        ActionChains(self.driver, duration=0).move_to_element_with_offset(element, dx, dy).perform()

    def find(self, selector: str):
        """Return the first element of a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector: str) -> list:
        """Return all elements of a CSS selector."""
        return self.driver.find_elements("css selector", selector)

    def complaints(self) -> list[str]:
        """Return the warnings and errors in the console since the page was opened."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("WARNING", "SEVERE")
        ]

    def picture(self, path: Path) -> Path:
        """Write what is to be seen as a PNG."""
        self.driver.save_screenshot(str(path))
        return path
