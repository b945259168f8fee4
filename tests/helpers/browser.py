"""A headless Chromium for tests, with what it logged and loaded."""

import json
import os
import shutil
import time

import pytest

#: As root and without a screen or graphics card; nothing is looked up or updated in the background.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
    "--window-size=1400,1000",
)

WAIT = 120.0


def start_browser(profile):
    """Start Chromium with a new profile; skip where there is none, or fail where one is required."""
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        return _missing("the Python package selenium")
    if binary is None or driver is None:
        return _missing("chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


def _missing(what):
    reason = f"The tests in a browser need {what}."
    if os.environ.get("JOINTGLASSO_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


class ReportPage:
    """An open report, with words for what a reader does."""

    def __init__(self, driver, path, downloads):
        self.driver, self.path, self.downloads = driver, path, downloads
        self.messages, self.requests = [], []
        self.forget()
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
        driver.set_script_timeout(300)
        driver.get(path.as_uri())
        self.wait_until_ready()

    def reload(self):
        self.driver.refresh()
        self.wait_until_ready()

    def wait_until_ready(self):
        self.until(lambda: self.run("return document.documentElement.dataset.ready"), "the page to be ready")

    def forget(self):
        """Drop what the browser logged about earlier pages."""
        for kind in ("performance", "browser"):
            self.driver.get_log(kind)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, condition, what):
        limit = time.monotonic() + WAIT
        while not (result := condition()):
            assert time.monotonic() < limit, f"waited {WAIT:g} s for {what}"
            time.sleep(0.02)
        return result

    def settle(self):
        """Wait until what was asked for is painted and the tables have followed, which they do 60 ms after a frame.

        Where frames take long, a picture is only shifted while it moves, and painted anew afterwards.
        """
        self.driver.execute_async_script(
            "const done = arguments[0], frame = requestAnimationFrame;"
            "const shifted = () => [...document.querySelectorAll('.view canvas')].some((c) => c.style.transform);"
            "const wait = () => { if (shifted()) setTimeout(wait, 20); else frame(() => frame(done)); };"
            "frame(() => setTimeout(wait, 70));"
        )

    def cpu_seconds(self):
        """Processor time of the page's process, which other processes of a busy machine do not add to."""
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "ProcessTime")

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click()", selector)
        self.settle()

    def set(self, selector, value, event="change"):
        self.run(
            "const control = document.querySelector(arguments[0]); control.value = arguments[1];"
            "control.dispatchEvent(new Event(arguments[2]))",
            selector,
            str(value),
            event,
        )
        self.settle()

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def counts(self):
        """Numbers of edges over the panels, by name."""
        names, counts = self.texts("figcaption strong"), self.texts("figcaption span")
        return {name: int(text.split()[0].replace(",", "")) for name, text in zip(names, counts, strict=True)}

    def table(self, section):
        """Cells of the rows of a table."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].map((r) => [...r.cells].map((c) => c.textContent))",
            f"{section} tbody tr",
        )

    def picture(self, panel=0, layer=0):
        script = "return document.querySelectorAll('.view')[arguments[0]].children[arguments[1]].toDataURL()"
        return self.run(script, panel, layer)

    def download(self, name, button):
        target = self.downloads / name
        target.unlink(missing_ok=True)
        labels = self.texts("#downloads button")
        self.run("document.querySelectorAll('#downloads button')[arguments[0]].click()", labels.index(button))
        self.until(lambda: target.exists() and not list(self.downloads.glob("*.crdownload")), f"the file {name}")
        return target

    def complaints(self):
        """Messages of the console, violations of the policy included."""
        self.messages += self.driver.get_log("browser")
        return [entry["message"] for entry in self.messages]

    def addresses(self):
        """Whatever was asked for over the network or from disk."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                parameters = message["params"]
                # The browser's own start page loads its parts when it pleases.
                if not parameters.get("documentURL", "").startswith("chrome"):
                    self.requests.append(parameters.get("request", parameters)["url"])
        return self.requests
