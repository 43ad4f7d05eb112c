#!/usr/bin/env python3
"""The page of `inspect --html` in a headless Chromium, which this program talks to through a pipe.

    page_test.py SAFETENSORS [--screenshots FOLDER] [unittest's arguments]

Without Chromium the test prints the reason and ends with status 77. SAFETENSORS_CHROMIUM names another browser.
"""

import base64
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any

import make_inputs

inputs: Any = make_inputs
PROGRAM = ""
SCREENSHOTS: str | None = None
DESKTOP = (1200, 900)
PHONE = (390, 844)
HOSTILE = [
    '</script><img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=2</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "__proto__.constructor",
    "constructor.prototype.toString",
    "{{7*7}}${7*7}`",
    "\u202egnp.\u2066exe",
    "\u2028\u2029\x00\x1b[31m",
    "a" * 3000,
    "." * 300,
    "\"'><svg onload=alert(1)>",
    "]]>",
]


def find_browser() -> str | None:
    names = ["chromium", "chromium-browser", "google-chrome", "chrome"]
    return os.environ.get("SAFETENSORS_CHROMIUM") or next(
        filter(None, map(shutil.which, names)), None
    )


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
        target = (
            pages[0]["targetId"]
            if pages
            else self.call("Target.createTarget", url="about:blank")["targetId"]
        )
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
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
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self.call("Page.navigate", url="file://" + path)
        end = time.monotonic() + 60
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            event = self.receive(max(0, end - time.monotonic()))
            if event is None:
                raise RuntimeError("the page does not load")
            self.events.append(event)

    def evaluate(self, expression: str) -> Any:
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
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

    def screenshot(self, name: str) -> None:
        if SCREENSHOTS is None:
            return
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(os.path.join(SCREENSHOTS, name + ".png"), "wb") as file:
            file.write(base64.b64decode(data))


def hostile() -> Any:
    tensors = [(name, "F32", [2], inputs.floats(i, -i)) for i, name in enumerate(HOSTILE)]
    metadata = {name: name for name in HOSTILE if len(name) < 100}
    return inputs.of_tensors(tensors, metadata)


def ten_thousand() -> Any:
    header: dict[str, Any] = {}
    end = 0
    for i in range(10000):
        header[f"model.layers.{i // 50}.experts.{i % 50}.weight"] = inputs.entry(
            "F32", [3], end, end + 12
        )
        end += 12
    return inputs.container(json.dumps(header), struct.pack("<30000f", *range(30000)))


class PageTest(unittest.TestCase):
    holder: tempfile.TemporaryDirectory[str]
    folder: str
    browser: Browser

    @classmethod
    def setUpClass(cls) -> None:
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = cls.holder.name
        inputs.main(cls.folder)
        for name, content in (("hostile", hostile()), ("large", ten_thousand())):
            with open(os.path.join(cls.folder, name + ".safetensors"), "wb") as file:
                file.write(content)
        cls.browser = Browser(find_browser() or "")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.close()
        cls.holder.cleanup()

    def make_page(self, name: str, *options: str) -> str:
        page = os.path.join(self.folder, os.path.basename(name) + ".html")
        command = [PROGRAM, "inspect", name, "--output", page, "--force", *options]
        subprocess.run(command, cwd=self.folder, check=True, timeout=120)
        return page

    def open(
        self, name: str, *options: str, size: tuple[int, int] = DESKTOP, dark: bool = False
    ) -> None:
        self.browser.open(self.make_page(name, *options), size, dark)

    def cells(self, row: int = 0) -> Any:
        return self.browser.evaluate(
            f"[...document.querySelectorAll('#rows > tr')[{row}].cells].map((c) => c.textContent)"
        )

    def count(self) -> Any:
        return self.browser.evaluate("document.getElementById('count').textContent")

    def type(self, text: str) -> None:
        self.browser.evaluate(
            f"(() => {{ const s = document.getElementById('search'); s.value = {json.dumps(text)};"
            " s.dispatchEvent(new Event('input')); })()"
        )

    def test_every_view_is_quiet_and_fits(self) -> None:
        for name in (
            "good.safetensors",
            "dtypes.safetensors",
            "hostile.safetensors",
            "nothing.safetensors",
            "model",
        ):
            for size, dark in ((DESKTOP, False), (DESKTOP, True), (PHONE, False), (PHONE, True)):
                with self.subTest(name=name, size=size, dark=dark):
                    self.open(name, "--stats", size=size, dark=dark)
                    self.assertLessEqual(
                        self.browser.evaluate("document.documentElement.scrollWidth"), size[0]
                    )
                    self.browser.evaluate(
                        "document.querySelectorAll('#rows button').forEach((b) => b.click())"
                    )
                    self.assertLessEqual(
                        self.browser.evaluate("document.documentElement.scrollWidth"), size[0]
                    )
                    shade = self.browser.evaluate("getComputedStyle(document.body).backgroundColor")
                    self.assertEqual(int(shade.split("(")[1].split(",")[0]) < 128, dark)
                    self.assertEqual(self.browser.complaints(), [])
                    self.browser.screenshot(
                        f"{name.split('.')[0]}-{size[0]}-{'dark' if dark else 'light'}"
                    )

    def test_hostile_names_are_text(self) -> None:
        self.open("hostile.safetensors", "--stats")
        shown = self.browser.evaluate(
            "[...document.querySelectorAll('#rows td.name')].map((c) => c.textContent)"
        )
        wanted = [
            name for name in HOSTILE if name.isascii() and name.isprintable() and "\\" not in name
        ]
        self.assertEqual(len(shown), len(HOSTILE))
        for name in wanted:
            self.assertIn(name, shown)
        self.assertIn("\\u{202e}gnp.\\u{2066}exe", shown)
        self.assertIn(
            "<img src=x onerror=alert(1)>",
            self.browser.evaluate("document.getElementById('pairs').textContent"),
        )
        self.assertEqual(
            self.browser.evaluate(
                "document.querySelectorAll('img, iframe, object, svg[onload]').length"
            ),
            0,
        )
        self.assertEqual(self.browser.evaluate("document.scripts.length"), 2)
        self.assertIsNone(self.browser.evaluate("window.hacked"))
        # Search, the map and the tree with each name.
        for name in shown:
            self.type(name)
            self.assertNotIn("0 of", self.count()[:4])
        self.browser.evaluate(
            "for (const id of ['map', 'tree']) for (let x = 2; x < 1100; x += 40) for (let y = 2; y < 230; y += 15)"
            " for (const kind of ['mousemove', 'click']) { const c = document.getElementById(id);"
            " const b = c.getBoundingClientRect();"
            " c.dispatchEvent(new MouseEvent(kind, { clientX: b.left + x, clientY: b.top + y, bubbles: true })); }"
        )
        self.assertEqual(self.browser.complaints(), [])
        self.assertIsNone(self.browser.evaluate("window.hacked"))

    def test_the_policy_stops_other_scripts(self) -> None:
        """Proves that the test above can fail: the browser reports a forbidden script."""
        self.open("good.safetensors")
        self.browser.evaluate(
            "(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
            " document.body.append(s); const d = document.createElement('div');"
            " d.setAttribute('onclick', 'window.hacked = 2'); document.body.append(d); d.click();"
            " const i = document.createElement('img'); i.src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='; document.body.append(i); })()"
        )
        self.assertIsNone(self.browser.evaluate("window.hacked"))
        self.assertGreaterEqual(
            len([c for c in self.browser.complaints() if "Content Security Policy" in c[1]]), 3
        )

    def test_table_sorts_searches_and_opens(self) -> None:
        self.open("good.safetensors", "--stats")
        self.assertEqual(self.cells(0)[0], "empty")
        self.assertEqual(
            self.cells(2)[:9],
            [
                "layer.2.weight",
                "F32",
                "[2,3]",
                "24 B",
                "392",
                "-2.5",
                "3e+38",
                "5e+37",
                "1.118e+38",
            ],
        )
        sort = (
            "[...document.querySelectorAll('#head button')].find((b) => b.textContent === %s).click()"
        )
        self.browser.evaluate(sort % "'Size'")
        self.assertEqual(self.cells(0)[0], "layer.2.weight")
        self.browser.evaluate(sort % "'Size'")
        self.assertEqual(self.cells(0)[0], "empty")
        self.browser.evaluate(sort % "'Name'")
        self.browser.evaluate(sort % "'Name'")
        self.assertEqual(
            [self.cells(i)[0] for i in range(3)], ["scale", "layer.10.weight", "layer.2.weight"]
        )
        self.type("WEIGHT f32")
        self.assertEqual(self.count(), "2 of 5 tensors, 36 B")
        self.browser.evaluate("document.querySelector('#rows button').click()")
        self.assertEqual(
            self.browser.evaluate(
                "document.querySelectorAll('tr.detail svg rect.positive').length"
            ),
            2,
        )
        self.browser.evaluate("document.querySelector('#rows button').click()")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('tr.detail').length"), 0)
        self.assertEqual(self.browser.complaints(), [])

    def test_several_files_and_no_stats(self) -> None:
        self.open("model")
        heads = self.browser.evaluate(
            "[...document.querySelectorAll('#head th')].map((c) => c.textContent)"
        )
        self.assertEqual(heads, ["Name", "Dtype", "Shape", "Size", "Offset", "File"])
        self.assertIn(
            "2 files", self.browser.evaluate("document.getElementById('summary').textContent")
        )
        self.assertEqual(self.browser.complaints(), [])

    def test_ten_thousand_tensors(self) -> None:
        started = time.monotonic()
        self.open("large.safetensors", "--stats")
        self.assertEqual(self.count(), "10,000 of 10,000 tensors, 117.2 KiB")
        self.assertLess(time.monotonic() - started, 30)
        for place in (0, 5000, 9999):
            self.browser.evaluate(
                f"new Promise((done) => {{ const b = document.getElementById('scroll');"
                f" b.scrollTop = {place} / 10000 * b.scrollHeight; setTimeout(done, 100); }})"
            )
            indexes = self.browser.evaluate(
                "[...document.querySelectorAll('#rows > tr')].map((r) => Number(r.getAttribute('aria-rowindex')))"
            )
            self.assertLess(len(indexes), 100)
            self.assertIn(place + 2, indexes)
        self.assertEqual(
            self.browser.evaluate(
                "document.getElementById('rows').lastChild.cells[0].textContent"
            ),
            "model.layers.199.experts.49.weight",
        )
        self.type("layers.199.experts.49.")
        self.assertEqual(self.cells(0)[0], "model.layers.199.experts.49.weight")
        self.assertEqual(self.browser.complaints(), [])

    def test_seventy_thousand_keys_of_metadata(self) -> None:
        with open(os.path.join(self.folder, "keys.safetensors"), "wb") as file:
            file.write(
                inputs.of_tensors(
                    [("a", "U8", [1], b"x")], {f"key{i:05}": str(i) for i in range(70000)}
                )
            )
        self.open("keys.safetensors")
        self.assertEqual(self.count(), "1 of 1 tensor, 1 B")
        self.assertEqual(
            self.browser.evaluate("document.querySelectorAll('#pairs dt').length"), 70000
        )
        self.assertEqual(
            self.browser.evaluate("document.querySelector('#pairs dd:last-child').textContent"),
            "69999",
        )
        self.assertEqual(self.browser.complaints(), [])


if __name__ == "__main__":
    if find_browser() is None:
        print("skipped: no chromium on the PATH (Debian: apt-get install chromium)")
        sys.exit(77)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    if "--screenshots" in sys.argv:
        at = sys.argv.index("--screenshots")
        SCREENSHOTS = sys.argv[at + 1]
        del sys.argv[at : at + 2]
    unittest.main()
