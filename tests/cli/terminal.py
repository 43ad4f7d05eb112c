"""Runs the command on a pseudo-terminal of a given width, and a model for it."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

import make_inputs
from command import PROGRAM, environment

LIMIT = 60  # seconds, far more than any command here takes


def run(program_arguments, folder, width, **variables):
    """(exit code, bytes) of the command on a pseudo-terminal. width 0: unknown."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("<4H", 24, width, 0, 0))
    process = subprocess.Popen(
        [PROGRAM, *program_arguments],
        cwd=folder,
        env=environment(**variables),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown, end = b"", time.monotonic() + LIMIT
    try:
        while select.select([master], [], [], max(0, end - time.monotonic()))[0] and (part := os.read(master, 65536)):
            shown += part
    except OSError:
        pass  # the end
    if time.monotonic() >= end:
        process.kill()
    os.close(master)
    return process.wait(timeout=LIMIT), shown


def lines(program_arguments, folder, width):
    """The lines of the command, whatever its exit code."""
    return run(program_arguments, folder, width, NO_COLOR="1")[1].decode().replace("\r\n", "\n").splitlines()


def llama(layers=32, changed=(), trouble=None):
    """A model with the names of a Llama, in F32. trouble: values at the beginning of tensors, by name."""
    shapes = [("model.embed_tokens.weight", [40, 8]), ("model.norm.weight", [8]), ("lm_head.weight", [40, 8])]
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        shapes += [(f"{prefix}self_attn.{x}_proj.weight", [8, 8]) for x in "qkvo"]
        shapes += [(f"{prefix}mlp.{x}_proj.weight", [24, 8]) for x in ("gate", "up", "down")]
        shapes += [(f"{prefix}{x}_layernorm.weight", [8]) for x in ("input", "post_attention")]
    tensors = []
    for name, shape in shapes:
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        scale = -0.0371 if name in changed else -0.0123
        values = [scale * (i % 7) + 0.00012345 for i in range(count)]
        first = (trouble or {}).get(name, [])
        tensors.append((name, "F32", shape, struct.pack(f"<{count}f", *(first + values[len(first) :]))))
    return make_inputs.of_tensors(tensors)
