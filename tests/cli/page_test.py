#!/usr/bin/env python3
"""The page of the verb `page` in a headless Chromium, which this program talks to through a pipe.

    page_test.py SAFETENSORS [--screenshots FOLDER] [unittest's arguments]

Without Chromium the test prints the reason and ends with status 77. SAFETENSORS_CHROMIUM names another browser.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
from typing import Any

import make_inputs
from command import PROGRAM
from browser import PHONE, Browser, find_browser

inputs: Any = make_inputs
SCREENSHOTS: str | None = None
DESKTOP = (1280, 900)
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


def hostile() -> Any:
    tensors = [(name, "F32", [2], inputs.floats(i, -i)) for i, name in enumerate(HOSTILE)]
    metadata = {name: name for name in HOSTILE if len(name) < 100}
    return inputs.of_tensors(tensors, metadata)


def ten_thousand() -> Any:
    header: dict[str, Any] = {}
    end = 0
    for i in range(10000):
        header[f"model.layers.{i // 50}.experts.{i % 50}.weight"] = inputs.entry("F32", [3], end, end + 12)
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
        command = [PROGRAM, "page", name, "--output", page, "--force", *options]
        subprocess.run(command, cwd=self.folder, check=True, timeout=120)
        return page

    def open(self, name: str, *options: str, size: tuple[int, int] = DESKTOP, dark: bool = False) -> None:
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
        for name in ("good.safetensors", "dtypes.safetensors", "hostile.safetensors", "nothing.safetensors", "model"):
            for size, dark in ((DESKTOP, False), (DESKTOP, True), (PHONE, False), (PHONE, True)):
                with self.subTest(name=name, size=size, dark=dark):
                    self.open(name, "--stats", size=size, dark=dark)
                    self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), size[0])
                    table, name_column = self.browser.evaluate(
                        "(() => { const b = document.getElementById('scroll'); return [b.scrollWidth - b.clientWidth,"
                        " document.querySelector('#head th').offsetWidth]; })()"
                    )
                    self.assertEqual(table, 0)
                    self.assertGreater(name_column, 120)
                    self.browser.evaluate("document.querySelectorAll('#rows button').forEach((b) => b.click())")
                    self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), size[0])
                    shade = self.browser.evaluate("getComputedStyle(document.body).backgroundColor")
                    self.assertEqual(int(shade.split("(")[1].split(",")[0]) < 128, dark)
                    self.assertEqual(self.browser.complaints(), [])
                    if SCREENSHOTS is not None:
                        picture = f"{name.split('.')[0]}-{size[0]}-{'dark' if dark else 'light'}.png"
                        self.browser.screenshot(os.path.join(SCREENSHOTS, picture))

    def test_hostile_names_are_text(self) -> None:
        self.open("hostile.safetensors", "--stats")
        shown = self.browser.evaluate("[...document.querySelectorAll('#rows td.name')].map((c) => c.textContent)")
        wanted = [name for name in HOSTILE if name.isascii() and name.isprintable() and "\\" not in name]
        self.assertEqual(len(shown), len(HOSTILE))
        for name in wanted:
            self.assertIn(name, shown)
        self.assertIn("\\u{202e}gnp.\\u{2066}exe", shown)
        self.assertIn(
            "<img src=x onerror=alert(1)>", self.browser.evaluate("document.getElementById('pairs').textContent")
        )
        self.assertEqual(
            self.browser.evaluate("document.querySelectorAll('img, iframe, object, svg[onload]').length"), 0
        )
        self.assertEqual(self.browser.evaluate("document.scripts.length"), 2)
        self.assertIsNone(self.browser.evaluate("window.hacked"))
        # Search with each name, and click at each tile of the map.
        for name in shown:
            self.type(name)
            self.assertNotIn("0 of", self.count()[:4])
        clicked = self.browser.evaluate(
            "[...document.querySelectorAll('#tree .tile')].map((tile) => { tile.click(); return tile.title; }).length"
        )
        self.assertGreater(clicked, 5)
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
        self.assertGreaterEqual(len([c for c in self.browser.complaints() if "Content Security Policy" in c[1]]), 3)

    def test_table_sorts_searches_and_opens(self) -> None:
        self.open("good.safetensors", "--stats")
        self.assertEqual(self.cells(0)[0], "empty")
        self.assertEqual(
            self.cells(2)[:9], ["layer.2.weight", "F32", "[2,3]", "24 B", "392", "-2.5", "3e+38", "5e+37", "1.118e+38"]
        )
        sort = "[...document.querySelectorAll('#head button')].find((b) => b.textContent === %s).click()"
        self.browser.evaluate(sort % "'Size'")
        self.assertEqual(self.cells(0)[0], "layer.2.weight")
        self.browser.evaluate(sort % "'Size'")
        self.assertEqual(self.cells(0)[0], "empty")
        self.browser.evaluate(sort % "'Name'")
        self.browser.evaluate(sort % "'Name'")
        self.assertEqual([self.cells(i)[0] for i in range(3)], ["scale", "layer.10.weight", "layer.2.weight"])
        self.type("WEIGHT f32")
        self.assertEqual(self.count(), "2 of 5 tensors, 36 B")
        self.browser.evaluate("document.querySelector('#rows button').click()")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('tr.detail .bars .positive').length"), 2)
        self.browser.evaluate("document.querySelector('#rows button').click()")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('tr.detail').length"), 0)
        self.assertEqual(self.browser.complaints(), [])

    def test_several_files_and_no_stats(self) -> None:
        self.open("model")
        heads = self.browser.evaluate("[...document.querySelectorAll('#head th')].map((c) => c.textContent)")
        self.assertEqual(heads, ["Name", "Dtype", "Shape", "Size", "Offset", "File"])
        self.assertIn("2 files", self.browser.evaluate("document.getElementById('summary').textContent"))
        self.assertEqual(self.browser.complaints(), [])

    def test_ten_thousand_tensors(self) -> None:
        self.open("large.safetensors", "--stats")
        self.assertEqual(self.count(), "10,000 of 10,000 tensors, 117.2 KiB")
        # Rows are made while the table is scrolled.
        rows = "document.querySelectorAll('#rows > tr').length"
        for made in range(1000, 10000, 1000):
            self.assertEqual(self.browser.evaluate(rows), made)
            self.browser.evaluate(
                "new Promise((done) => { const b = document.getElementById('scroll');"
                " b.scrollTop = b.scrollHeight; requestAnimationFrame(() => requestAnimationFrame(done)); })"
            )
        self.assertEqual(self.browser.evaluate(rows), 10000)
        self.assertEqual(
            self.browser.evaluate("document.getElementById('rows').lastChild.cells[0].textContent"),
            "model.layers.199.experts.49.weight",
        )
        # A link to a late tensor makes the rows around it. Scrolling up makes those before them.
        name = "model.layers.199.experts.49.weight"
        wait = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.browser.evaluate(
            "new Promise((done) => { addEventListener('hashchange', () => requestAnimationFrame(() =>"
            f" requestAnimationFrame(done)), {{ once: true }}); location.hash = '{name}'; }})"
        )
        self.assertEqual(self.marked(), [name])
        self.assertLessEqual(self.browser.evaluate(rows), 1001)
        before = self.browser.evaluate(rows)
        self.browser.evaluate(f"document.getElementById('scroll').scrollTop = 0, {wait}")
        self.assertEqual(self.browser.evaluate(rows), before + 1000)
        self.assertGreater(self.browser.evaluate("document.getElementById('scroll').scrollTop"), 1000)
        # Modules: the largest 100, or more.
        modules = "document.querySelectorAll('#module-rows tr').length"
        self.browser.evaluate("document.querySelector('#module-rows button').click()")
        self.assertEqual(self.browser.evaluate(modules), 100)
        note = "document.getElementById('module-rest').textContent"
        self.assertIn("The largest 100 of 200.", self.browser.evaluate(note))
        self.browser.evaluate("document.getElementById('more-modules').click()")
        self.assertEqual(self.browser.evaluate(modules), 200)
        self.type("layers.199.experts.49.")
        self.assertEqual(self.cells(0)[0], "model.layers.199.experts.49.weight")
        self.assertEqual(self.browser.complaints(), [])

    def marked(self) -> Any:
        return self.browser.evaluate(
            "[...document.querySelectorAll('[aria-current]')].map((r) => r.cells[0].textContent)"
        )

    def test_search_by_patterns_and_expressions(self) -> None:
        self.open("hostile.safetensors")
        for pattern in (
            "*", "a*", "*aaa*", "?bang", "[!a-z]*", "*.*.*", "*r", "[]]]*", "<*>", "<*[a-z]>", "*\\**", "a*a*a*b", "[z-a]*", "*[", "",
        ):  # fmt: skip
            with self.subTest(pattern=pattern):
                command = [PROGRAM, "ls", "hostile.safetensors", "--json", "--match", pattern or "*"]
                listed = subprocess.run(command, cwd=self.folder, capture_output=True, timeout=60)
                wanted = {
                    t["name"] for t in json.loads(listed.stdout)["files"][0]["tensors"] if t["name"].isprintable()
                }
                # A word is also found as it is, and in any case.
                wanted |= {n for n in HOSTILE if n.isprintable() and pattern.lower() in n.lower()}
                self.type(pattern)
                shown = set(
                    self.browser.evaluate("[...document.querySelectorAll('#rows td.name')].map((c) => c.textContent)")
                )
                plain = {n for n in wanted if "\\" not in n}
                self.assertEqual({n for n in shown if "\\" not in n}, plain)
        self.type("/^<.*>$/")
        self.assertEqual(self.count()[:8], "4 of 14 ")
        self.type("/^A+$/i")
        self.assertEqual(self.count()[:8], "1 of 14 ")
        error = "document.getElementById('search-error').textContent"
        self.type("/(/")
        self.assertIn("Wrong regular expression", self.browser.evaluate(error))
        self.assertEqual(self.count()[:8], "1 of 14 ")
        self.assertEqual(self.browser.evaluate("document.getElementById('search').ariaInvalid"), "true")
        self.type("con*tor")
        self.assertIn("try *con*tor*", self.browser.evaluate(error))
        self.browser.evaluate("document.activeElement.blur()")
        self.browser.press("/")
        self.assertEqual(self.browser.evaluate("document.activeElement.id"), "search")
        self.browser.press("Escape")
        self.assertEqual(self.count()[:9], "14 of 14 ")
        self.assertEqual(self.browser.complaints(), [])

    def test_address_names_a_tensor(self) -> None:
        page = self.make_page("hostile.safetensors", "--stats")
        names = [n for n in HOSTILE if n not in (".", "")]
        for name in names:
            with self.subTest(name=name):
                self.browser.open(page + "#" + urllib.parse.quote(name, safe=""), DESKTOP, False)
                shown = self.marked()
                self.assertEqual(len(shown), 1)
                if name.isprintable() and "\\" not in name:
                    self.assertEqual(shown[0], name)
                # The link of the page leads to the same tensor.
                link = self.browser.evaluate("document.querySelector('tr.detail a').hash")
                self.browser.open(page + link, DESKTOP, False)
                self.assertEqual(self.marked(), shown)
                self.assertEqual(self.browser.complaints(), [])
        page = self.make_page("large.safetensors")
        self.browser.open(page + "#model.layers.150.experts.7.weight", PHONE, False)
        self.assertEqual(self.marked(), ["model.layers.150.experts.7.weight"])
        inside = (
            "(() => { const r = document.querySelector('.marked').getBoundingClientRect();"
            " const b = document.getElementById('scroll').getBoundingClientRect();"
            " return r.top >= b.top && r.bottom <= b.bottom && r.bottom <= innerHeight && r.top >= 0; })()"
        )
        self.assertTrue(self.browser.evaluate(inside))
        self.type("experts.1.")
        self.browser.evaluate(
            "new Promise((done) => { addEventListener('hashchange', () => requestAnimationFrame(() =>"
            " requestAnimationFrame(done)), { once: true }); location.hash = '#model.layers.3.experts.2.weight'; })"
        )
        self.assertEqual(self.marked(), ["model.layers.3.experts.2.weight"])
        self.assertTrue(self.browser.evaluate(inside))
        for wrong in ("%", "%E0%A4%A", "no such tensor", "title", "search"):
            self.browser.open(page + "#" + wrong, DESKTOP, False)
            self.assertEqual(self.marked(), [])
            self.assertEqual(self.browser.complaints(), [])

    def test_modules(self) -> None:
        self.open("model")
        tiles = "[...document.querySelectorAll('#tree > .part > .tile')].map((t) => [t.textContent, t.title])"
        self.assertEqual(
            self.browser.evaluate(tiles),
            [
                ["layer  16 B0.weight10.weight2.weight", "layer\n5 parameters, 16 B, 66.7 %"],
                ["norm", "norm\nF32 [2], 8 B, 33.3 %"],
            ],
        )
        areas = "[...document.querySelectorAll('#tree > .part > .tile')].map((t) => t.clientWidth * t.clientHeight)"
        large, small = self.browser.evaluate(areas)
        self.assertAlmostEqual(large / small, 2, delta=0.1)
        self.browser.evaluate("document.querySelector('#tree .tile').click()")
        crumbs = "document.getElementById('crumbs').textContent"
        self.assertEqual(self.browser.evaluate(crumbs), "all / layer, 5 parameters, 16 B")
        self.browser.evaluate("document.querySelector('#crumbs button').focus()")
        self.browser.press("Enter")
        self.assertEqual(self.browser.evaluate(crumbs), "all, 7 parameters, 24 B")
        self.browser.evaluate("document.querySelector('#module-rows button').focus()")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        self.assertEqual(self.browser.evaluate(outline), "solid")
        self.browser.press("Enter")
        self.assertEqual(self.browser.evaluate(crumbs), "all / layer, 5 parameters, 16 B")
        for role in ("region", "status", "alert", "search"):
            self.assertTrue(self.browser.evaluate(f"document.querySelector('[role={role}]') !== null"))
        unnamed = (
            "[...document.querySelectorAll('[role=region], [role=img], input, button')]"
            ".filter((e) => !e.ariaLabel && !e.textContent && !e.hidden).map((e) => e.outerHTML)"
        )
        self.assertEqual(self.browser.evaluate(unnamed), [])
        self.assertEqual(self.browser.complaints(), [])

    def test_rows_work_with_the_keyboard(self) -> None:
        self.open("large.safetensors")
        self.browser.evaluate("document.getElementById('search').focus()")
        for _ in range(60):
            self.browser.press("ArrowDown")
        self.assertEqual(self.browser.evaluate("document.activeElement.textContent"), "model.layers.1.experts.9.weight")
        self.browser.press("Enter")
        self.assertEqual(self.browser.evaluate("document.activeElement.ariaExpanded"), "true")
        self.assertEqual(self.browser.complaints(), [])

    def test_paper(self) -> None:
        self.open("large.safetensors", "--stats", dark=True)
        self.browser.call("Emulation.setEmulatedMedia", media="print")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#rows > tr').length"), 1000)
        self.assertTrue(self.browser.evaluate("document.getElementById('printed').checkVisibility()"))
        self.assertIn("1,000 of 10,000", self.browser.evaluate("document.getElementById('printed').textContent"))
        self.browser.call("Emulation.setEmulatedMedia", media="")
        self.assertFalse(self.browser.evaluate("document.getElementById('printed').checkVisibility()"))
        sheets = self.browser.pdf().count(b"/Type /Page\n")
        self.assertGreater(sheets, 10)
        self.assertEqual(self.browser.complaints(), [])

    def test_seventy_thousand_keys_of_metadata(self) -> None:
        with open(os.path.join(self.folder, "keys.safetensors"), "wb") as file:
            file.write(inputs.of_tensors([("a", "U8", [1], b"x")], {f"key{i:05}": str(i) for i in range(70000)}))
        self.open("keys.safetensors")
        self.assertEqual(self.count(), "1 of 1 tensor, 1 B")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#pairs dt').length"), 70000)
        self.assertEqual(self.browser.evaluate("document.querySelector('#pairs dd:last-child').textContent"), "69999")
        self.assertEqual(self.browser.complaints(), [])


if __name__ == "__main__":
    if find_browser() is None:
        print("skipped: no chromium on the PATH (Debian: apt-get install chromium)")
        sys.exit(77)
    if "--screenshots" in sys.argv:
        at = sys.argv.index("--screenshots")
        SCREENSHOTS = sys.argv[at + 1]
        del sys.argv[at : at + 2]
    unittest.main()
