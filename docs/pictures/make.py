#!/usr/bin/env python3
"""Makes the pictures of the documents: the terminal as SVG, and the page of `safetensors page` as PNG.

    docs/pictures/make.py SAFETENSORS

Writes into the folder of this file. The terminal needs only Python. The page needs Chromium on the PATH; without it the
picture of the page stays as it is. If pngquant is there, it makes it smaller. The model is made here, with a
fixed seed: a small Llama in two files, and a copy with other attention weights in one layer.
"""
import fcntl
import html
import json
import os
import pty
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "cli"))
import browser  # noqa: E402
HIDDEN, HEADS, WIDE, WORDS, LAYERS = 128, 4, 344, 1000, 6
COLUMNS = 80


def tensors() -> dict[str, tuple[str, list[int]]]:
    """Returns the names, dtypes and shapes of a small Llama."""
    found: dict[str, tuple[str, list[int]]] = {"model.embed_tokens.weight": ("BF16", [WORDS, HIDDEN])}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name in ("q", "k", "v", "o"):
            rows = HIDDEN // HEADS * 2 if name in "kv" else HIDDEN
            found[f"{at}self_attn.{name}_proj.weight"] = ("BF16", [rows, HIDDEN])
        for name in ("gate", "up"):
            found[f"{at}mlp.{name}_proj.weight"] = ("BF16", [WIDE, HIDDEN])
        found[at + "mlp.down_proj.weight"] = ("BF16", [HIDDEN, WIDE])
        for name in ("input", "post_attention"):
            found[f"{at}{name}_layernorm.weight"] = ("F32", [HIDDEN])
    found["model.norm.weight"] = ("F32", [HIDDEN])
    found["lm_head.weight"] = ("BF16", [WORDS, HIDDEN])
    return found


def values(name: str, dtype: str, shape: list[int], seed: str) -> bytes:
    """Returns norms near 1, or weights of a normal distribution whose columns have different sizes, as those of real models."""
    source = random.Random(name + seed)
    if dtype == "F32":
        return struct.pack(f"<{shape[0]}f", *(1 + source.gauss(0, 0.1) for _ in range(shape[0])))
    rows, columns = shape
    sizes = [0.02 * source.lognormvariate(0, 0.5) for _ in range(columns)]
    numbers = [source.gauss(0, sizes[j]) for _ in range(rows) for j in range(columns)]
    packed = struct.pack(f"<{len(numbers)}f", *numbers)
    return b"".join(packed[i + 2 : i + 4] for i in range(0, len(packed), 4))


def write_model(folder: str, changed: str = "") -> None:
    """Writes a model of two files. changed: a part of the names of the tensors that get other values."""
    os.mkdir(folder)
    everything = tensors()
    names = list(everything)
    halves = [names[: len(names) // 2], names[len(names) // 2 :]]
    index: dict[str, str] = {}
    total = 0
    for number, half in enumerate(halves, 1):
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        data = b""
        file = f"model-{number:05}-of-{len(halves):05}.safetensors"
        for name in sorted(half, key=lambda one: (everything[one][0] != "F32", one)):
            dtype, shape = everything[name]
            content = values(name, dtype, shape, "new" if changed and changed in name else "")
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            data += content
            index[name] = file
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, file), "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text + data)
        total += len(data)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as out:
        json.dump({"metadata": {"total_size": total}, "weight_map": index}, out)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN}
    config |= {"num_attention_heads": HEADS, "num_key_value_heads": 2, "num_hidden_layers": LAYERS}
    config |= {"intermediate_size": WIDE, "vocab_size": WORDS, "torch_dtype": "bfloat16"}
    with open(os.path.join(folder, "config.json"), "w") as out:
        json.dump(config, out, indent=2)


def terminal(program: str, arguments: list[str], folder: str) -> str:
    """Returns what the command prints on a terminal of 80 columns with colours."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("<4H", 40, COLUMNS, 0, 0))
    variables = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "CLICOLOR_FORCE", "COLUMNS")}
    process = subprocess.Popen(
        [program, *arguments], cwd=folder, stdin=slave, stdout=slave, stderr=slave, env=variables | {"TERM": "xterm-256color"}
    )
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 65536):
            shown += part
    except OSError:
        pass  # the end
    os.close(master)
    process.wait()
    return shown.decode().replace("\r\n", "\n")


# The colours of a terminal, by the numbers of its sequences.
PAINT = {"31": "#f28b82", "32": "#81c995", "33": "#fdd663", "34": "#8ab4f8", "35": "#d7aefb", "36": "#78d9ec", "90": "#9aa0a6"}


def spans(line: str) -> list[tuple[str, str]]:
    """Splits a line into parts of one style: (style, text)."""
    found, style = [], ""
    for part in re.split(r"(\x1b\[[\d;]*m|\x1b\[K|\r)", line):
        sequence = re.fullmatch(r"\x1b\[([\d;]*)m", part)
        if sequence:
            codes = sequence[1].split(";")
            if codes in ([""], ["0"]):
                style = ""
            style += "".join(f' fill="{PAINT[code]}"' for code in codes if code in PAINT)
            style += ' font-weight="bold"' if "1" in codes else ""
            style += ' opacity="0.65"' if "2" in codes else ""
        elif part and part != "\r" and not part.startswith("\x1b"):
            found.append((style, part))
    return found


def wrapped(parts: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Breaks a line where a terminal breaks it."""
    lines: list[list[tuple[str, str]]] = [[]]
    free = COLUMNS
    for style, text in parts:
        while len(text) > free:
            lines[-1].append((style, text[:free]))
            lines.append([])
            text, free = text[free:], COLUMNS
        lines[-1].append((style, text))
        free -= len(text)
    return lines


def write_terminal(path: str, program: str, folder: str, commands: list[list[str]]) -> None:
    """Draws what commands print. Each part has its place and its width, so that every font keeps the columns."""
    wide, high, edge = 8.4, 19, 16
    lines: list[list[tuple[str, str]]] = []
    for arguments in commands:
        lines.append([(' fill="#81c995"', "$ "), (' font-weight="bold"', "safetensors " + " ".join(arguments))])
        for line in terminal(program, arguments, folder).rstrip("\n").split("\n"):
            lines += wrapped(spans(line))
        lines.append([])
    lines.pop()
    width, height = COLUMNS * wide + 2 * edge, len(lines) * high + 2 * edge
    font = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">',
        '<rect width="100%" height="100%" rx="10" fill="#1b1f24"/>',
        f'<g font-family="{font}" font-size="14" fill="#e6e9ed">',
    ]
    for number, line in enumerate(lines):
        column, y, drawn = 0, edge + number * high + 14, ""
        for style, text in line:
            if bare := text.strip():
                x = edge + (column + len(text) - len(text.lstrip())) * wide
                size = f'textLength="{len(bare) * wide:.4g}"'
                drawn += f'<text x="{x:.4g}" y="{y}" {size} xml:space="preserve"{style}>{html.escape(bare)}</text>'
            column += len(text)
        out += [drawn] if drawn else []
    with open(path, "w") as file:
        file.write("\n".join([*out, "</g></svg>", ""]))


def write_page(name: str, program: str, folder: str, size: tuple[int, int], part: str, options: list[str]) -> None:
    """Draws the top of a page, or the part that an address names, with Chromium."""
    program_of_browser = browser.find_browser()
    if program_of_browser is None:
        print(f"{name}: left as it is, there is no Chromium")
        return
    page, picture = os.path.join(folder, "page.html"), os.path.join(HERE, name)
    subprocess.run([program, "page", "llama", "-o", page, "--force", *options], cwd=folder, check=True)
    opened = browser.Browser(program_of_browser)
    opened.open(page + part, size, False)
    opened.evaluate("new Promise((done) => setTimeout(done, 200))")
    opened.screenshot(picture, False)
    opened.close()
    if shutil.which("pngquant"):
        subprocess.run(["pngquant", "--force", "--strip", "--speed", "1", "--output", picture, "64", picture], check=True)
    print(f"{name}: {os.path.getsize(picture):,} bytes")


def main(program: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_model(os.path.join(folder, "llama"))
        write_model(os.path.join(folder, "tuned"), changed="layers.3.self_attn")
        cut = os.path.join(folder, "download.safetensors")
        shutil.copy(os.path.join(folder, "llama", "model-00001-of-00002.safetensors"), cut)
        os.truncate(cut, 1_000_000)
        commands = [["ls", "--tree", "llama"], ["verify", "download.safetensors"], ["diff", "llama", "tuned", "--by-layer"]]
        write_terminal(os.path.join(HERE, "terminal.svg"), program, folder, commands)
        write_page("page.png", program, folder, (1280, 1090), "", ["--stats"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]))
