"""The statement of `safetensors hash --format model-signing`: the package signs the same, and verifies ours."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PAYLOAD_TYPE = "application/vnd.in-toto+json"


@pytest.fixture(scope="module")
def signing() -> Any:
    """The package, or a skip with the reason."""
    pytest.importorskip("model_signing", reason="model-signing is not installed")
    return pytest.importorskip("model_signing.signing", reason="pyOpenSSL is not installed")


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Any, Path, Path]:
    """A new private key, and the paths of it and of its public key."""
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    private, public = tmp_path / "key.pem", tmp_path / "key.pub"
    pem = serialization.Encoding.PEM
    private.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public.write_bytes(
        key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return key, private, public


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with hidden and ignored files, and names whose order is not that of their bytes."""
    files = {
        "model.safetensors": b"\x02\0\0\0\0\0\0\0{}",
        "config.json": b"{}",
        ".hidden": b"h",
        ".gitattributes": b"ignored",
        ".git/HEAD": b"ignored",
        "sub/.git/HEAD": b"not ignored",
        "sub/a": b"a" * 3_000_000,
        "sub-b/a": b"",
        "sub.c": b"\n",
        "sub é": b"\xff",
    }
    for name, data in files.items():
        path = tmp_path / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "model"


def statement(path: Path) -> bytes:
    command = shutil.which("safetensors")
    if command is None:
        pytest.skip("there is no command safetensors on the PATH")
    done = subprocess.run([command, "hash", path, "--format", "model-signing"], capture_output=True)
    if b"no hash functions" in done.stderr:
        pytest.skip("the command safetensors on the PATH has no hash functions")
    assert done.returncode == 0, done.stderr
    return done.stdout


def bundle(payload: bytes, key: Any, public: Path) -> dict[str, Any]:
    """Sign a payload in a DSSE envelope, and put it in a bundle of Sigstore."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    head = f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(payload)} ".encode()
    signature = key.sign(head + payload, ec.ECDSA(hashes.SHA256()))
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {
            "publicKey": {"hint": hashlib.sha256(public.read_bytes()).hexdigest()},
            "tlogEntries": [],
        },
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }


@pytest.mark.parametrize("name", ["", "model.safetensors"])
def test_the_package_signs_the_same_statement(
    signing: Any, keys: Any, model: Path, tmp_path: Path, name: str
) -> None:
    path = model / name
    config = signing.Config().use_elliptic_key_signer(private_key=keys[1])
    config.sign(path, tmp_path / "theirs.json")
    signed = json.loads((tmp_path / "theirs.json").read_text())
    theirs = json.loads(base64.b64decode(signed["dsseEnvelope"]["payload"]))
    theirs["predicate"]["serialization"]["ignore_paths"].sort()
    assert json.loads(statement(path)) == theirs


def test_the_package_verifies_our_statement(
    signing: Any, keys: Any, model: Path, tmp_path: Path
) -> None:
    from model_signing import verifying

    key, _, public = keys
    signature = tmp_path / "ours.json"
    signature.write_text(json.dumps(bundle(statement(model), key, public)))
    config = verifying.Config().use_elliptic_key_verifier(public_key=public)
    config.verify(model, signature)
    (model / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0[]")
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        config.verify(model, signature)


def test_links_are_refused(model: Path) -> None:
    command = shutil.which("safetensors")
    if command is None:
        pytest.skip("there is no command safetensors on the PATH")
    (model / "link").symlink_to("config.json")
    done = subprocess.run(
        [command, "hash", model, "--format", "model-signing"], capture_output=True, text=True
    )
    if "no hash functions" in done.stderr:
        pytest.skip("the command safetensors on the PATH has no hash functions")
    assert done.returncode == 1
    assert done.stderr.endswith("link: a symbolic link: model-signing refuses links by default\n")
