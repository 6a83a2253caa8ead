# SPDX-License-Identifier: Apache-2.0
"""The secret of a test's applications, and the ways in which Spark proves that it knows it."""

from pathlib import Path

# It repeats nothing, so that compression does not hide it from a search.
SECRET = "9d2f6c1e40b7a853f61d08c92e7b5a34c0f9861d3e52b74a17d8e06f95ca2b3d"
SASL = {"spark.authenticate": "true", "spark.authenticate.secret": SECRET}
AES = {**SASL, "spark.network.crypto.enabled": "true"}
KINDS = {"sasl": SASL, "aes": AES, "aes-2": {**AES, "spark.network.crypto.authEngineVersion": "2"}}
# Since Spark 4.
GCM = {**AES, "spark.network.crypto.cipher": "AES/GCM/NoPadding"}


def secret_file(directory: Path) -> Path:
    """Makes a file with the secret of all applications, as `--secrets` takes it."""
    file = directory / "secret"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    return file
