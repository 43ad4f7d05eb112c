"""A headless Chromium for tests, driven through a pipe."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from typing import Any

PHONE = (400, 844)


def find_browser() -> str | None:
    names = ["chromium", "chromium-browser", "google-chrome", "chrome"]
    return os.environ.get("SAFETENSORS_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


class Browser:
    """Chromium with one page, driven by the DevTools protocol: JSON messages with a zero byte at the end."""

    def __init__(self, program: str) -> None:
        self.folder = tempfile.mkdtemp()
        to_browser, self.output = os.pipe()
        self.input, from_browser = os.pipe()

        def give_pipes() -> None:  # the protocol uses descriptors 3 and 4
            high = [os.dup(to_browser), os.dup(from_browser)]
            os.dup2(os.dup(high[0]), 30)
            os.dup2(os.dup(high[1]), 31)
            os.dup2(30, 3)
            os.dup2(31, 4)

        self.process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--user-data-dir=" + self.folder,
                "--remote-debugging-pipe",
                "about:blank",
            ],
            preexec_fn=give_pipes,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        target = pages[0]["targetId"] if pages else self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.output)
        os.close(self.input)
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self, timeout: float) -> dict[str, Any] | None:
        end = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            if not select.select([self.input], [], [], max(0, end - time.monotonic()))[0]:
                return None
            data = os.read(self.input, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self.buffer += data
        text, _, self.buffer = self.buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(60)
            if answer is None:
                raise RuntimeError(f"no answer to {method}")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(self, path: str, size: tuple[int, int], dark: bool) -> None:
        self.events = []
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=size[0],
            height=size[1],
            deviceScaleFactor=1,
            mobile=size == PHONE,
        )
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url="about:blank")
        self.wait_for_load()
        self.events = []
        self.call("Page.navigate", url="file://" + path)
        self.wait_for_load()

    def wait_for_load(self) -> None:
        end = time.monotonic() + 60
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            event = self.receive(max(0, end - time.monotonic()))
            if event is None:
                raise RuntimeError("the page does not load")
            self.events.append(event)

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def complaints(self) -> list[tuple[str, str]]:
        """Messages on the console, exceptions, violations of the policy, dialogs, and requests beside the page."""
        self.evaluate("new Promise((done) => setTimeout(done, 50))")
        found = []
        for event in self.events:
            method, parameters = event.get("method", ""), event.get("params", {})
            if method in (
                "Runtime.consoleAPICalled",
                "Runtime.exceptionThrown",
                "Page.javascriptDialogOpening",
                "Log.entryAdded",
            ):
                found.append((method, json.dumps(parameters)[:500]))
            if method == "Network.requestWillBeSent" and parameters.get("type") != "Document":
                found.append((method, parameters["request"]["url"][:200]))
        return found

    def press(self, key: str) -> None:
        """Presses a key as a user does: to the element that has the focus."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: str, whole: bool = True) -> None:
        """Writes a picture of the whole page, or of its visible part."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])
