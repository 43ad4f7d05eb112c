#!/usr/bin/env python3
"""Counts the lines that a file of a user compiles when it includes a header of ours.

    include_cost.py COMPILER INCLUDE

The yardstick is the same count for the headers of the standard library that the interface needs: std::shared_ptr,
std::string, std::vector and a few more. Our own declarations may add at most the given number of lines. A header such as
<functional>, <chrono>, <algorithm>, <iterator> or <iostream> adds thousands.
"""
import subprocess
import sys

STANDARD = ["cassert", "memory", "optional", "string", "vector"]
LIMITS = {"dtype.h": 500, "error.h": 800, "file.h": 3000, "read_plan.h": 3200, "safetensors.h": 4000}


def lines(compiler, headers, *options):
    source = "".join(f"#include <{header}>\n" for header in headers)
    result = subprocess.run(
        [compiler, "-std=c++17", "-DSAFETENSORS_LITTLE_ENDIAN_BYTES", "-E", "-P", "-x", "c++", *options, "-"],
        input=source, capture_output=True, check=True, text=True, timeout=300,
    )
    return sum(1 for line in result.stdout.splitlines() if line.strip())


def main():
    compiler, include = sys.argv[1:]
    standard = lines(compiler, STANDARD)
    for header in ("algorithm", "chrono", "functional", "iostream", "iterator"):
        more = lines(compiler, [*STANDARD, header]) - standard
        print(f"<{header}> would add {more} lines")
    failed = False
    for header, limit in LIMITS.items():
        ours = lines(compiler, [*STANDARD, f"safetensors/{header}"], f"-I{include}") - standard
        print(f"{header}: {ours} lines beside {standard} of the standard library, at most {limit}")
        failed |= ours > limit
        whole = lines(compiler, [f"safetensors/{header}"], f"-I{include}")
        failed |= whole > standard + limit
    sys.exit("a header of ours includes too much" if failed else 0)


if __name__ == "__main__":
    main()
