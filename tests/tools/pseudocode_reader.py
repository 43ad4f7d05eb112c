#!/usr/bin/env python3
"""Reads our files as the format's pseudo-code does: 8 bytes, N, JSON, then seek to 8 + N + begin.

usage: pseudocode_reader.py PSEUDOCODE_FILES, the program that writes the files and says what is in them.
"""
import json
import os
import subprocess
import sys
import tempfile


def read_header(stream):
    length = int.from_bytes(stream.read(8), "little")
    return length, json.loads(stream.read(length).decode("utf-8"))


def check(directory, description):
    """Compares one file with its lines: the file's, then a tensor's each."""
    _, file, metadata = description[0].split(" ")
    with open(os.path.join(directory, file), "rb") as stream:
        length, header = read_header(stream)
        found = header.pop("__metadata__", None)
        assert (-1 if found is None else len(found)) == int(metadata), (file, found)
        assert len(header) == len(description) - 1, file
        end = 0
        for line in description[1:]:
            _, name, dtype, shape, data = line.split(" ")
            entry = header[bytes.fromhex(name[1:]).decode("utf-8")]
            assert entry["dtype"] == dtype and entry["shape"] == json.loads(shape), (file, entry)
            begin, stop = entry["data_offsets"]
            stream.seek(8 + length + begin)
            assert stream.read(stop - begin) == bytes.fromhex(data[1:]), (file, entry)
            end = max(end, stop)
        assert 8 + length + end == stream.seek(0, os.SEEK_END), file
        assert (8 + length) % (4096 if file == "aligned" else 8) == 0, file


def main():
    files = []
    with tempfile.TemporaryDirectory() as directory:
        printed = subprocess.run([sys.argv[1], directory], check=True, capture_output=True, text=True).stdout
        for line in printed.splitlines():
            if line.startswith("file "):
                files.append([])
            files[-1].append(line)
        for description in files:
            check(directory, description)
    assert len(files) == 5
    print(len(files), "files read")


main()
