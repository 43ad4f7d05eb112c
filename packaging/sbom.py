"""Prints what the programs of a release contain, as a bill of materials in CycloneDX 1.5.

usage: python3 packaging/sbom.py RELEASE SECONDS FOLDER

SECONDS is the time of the release since 1970. FOLDER holds the tools and libraries that scripts/release used. Versions come
from there, not from a list: from headers, and from the names of the source archives.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import uuid
from pathlib import Path


def found(pattern: str, files: list[Path]) -> str:
    """Return the text of the first group in the first file that matches. Raises SystemExit if none does."""
    for file in files:
        match = re.search(pattern, file.read_text(errors="replace"))
        if match:
            return match[1]
    raise SystemExit(f"sbom.py: no file matches {pattern}, looked at {[str(f) for f in files]}")


def named(pattern: str, folder: Path) -> str:
    """Return the text of the first group in the first name of a folder that matches."""
    for path in sorted(folder.iterdir()):
        match = re.fullmatch(pattern, path.name)
        if match:
            return match[1]
    raise SystemExit(f"sbom.py: no name in {folder} matches {pattern}")


def fmt_version(tools: Path) -> str:
    """Return the version of fmt: the header has 90100 for 9.1.0."""
    number = int(found(r"#define FMT_VERSION (\d+)", sorted((tools / "fmt/include/fmt").glob("[bc]*e.h"))))
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def components(tools: Path) -> list[tuple[str, str, str, str]]:
    """Return name, version, license and the programs that contain each part."""
    source = tools / "libraries/source"
    packages = next(iter(sorted((tools / "cross/lib").glob("python3*/site-packages"))), None)
    if packages is None:
        raise SystemExit(f"sbom.py: no zig in {tools / 'cross'}: scripts/release installs it")
    makers = sorted(tools.glob("tools-*/lib/python3*/site-packages"))
    parts = [
        ("openssl", named(r"openssl_([0-9.]+)\.orig\.tar\..z", source), "Apache-2.0", "command, wheels"),
        ("re2", named(r"re2_([0-9]+).*\.orig\.tar\..z", source), "BSD-3-Clause", "command, wheels"),
        ("blake3", found(r'BLAKE3_VERSION_STRING "([^"]+)"', [source / "blake3/blake3.h"]), "CC0-1.0 OR Apache-2.0", "command, wheels"),
        ("fmt", fmt_version(tools), "MIT", "command, wheels"),
        # It brings the C++ library, and for static programs the C library.
        ("zig (libc++, libunwind, musl)", named(r"ziglang-([0-9.]+)\.dist-info", packages), "MIT", "command, wheels"),
    ]
    if makers:
        parts.append(("nanobind", named(r"nanobind-([0-9.]+)\.dist-info", makers[0]), "BSD-3-Clause", "wheels"))
    return parts


def document(release: str, seconds: int, tools: Path) -> dict[str, object]:
    """Return the bill of materials."""
    listed = [
        {
            "type": "library",
            "bom-ref": name,
            "name": name,
            "version": version,
            "licenses": [{"expression": terms}],
            "properties": [{"name": "contained in", "value": programs}],
        }
        for name, version, terms, programs in components(tools)
    ]
    time = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = {"type": "application", "bom-ref": "safetensors", "name": "safetensors", "version": release}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'safetensors {release} {seconds}')}",
        "version": 1,
        "metadata": {"timestamp": time, "component": {**own, "licenses": [{"expression": "Apache-2.0"}]}},
        "components": listed,
        "dependencies": [{"ref": "safetensors", "dependsOn": [part["bom-ref"] for part in listed]}],
    }


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    print(json.dumps(document(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])), indent=2))
