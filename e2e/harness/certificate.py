# SPDX-License-Identifier: Apache-2.0
"""A certificate made for one test, for Spark's processes and for a daemon."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

PASSWORD = "not-a-secret"


@dataclass
class Certificate:
    """Certificate and key, in the forms of Java (`store`) and of a daemon (PEM)."""

    store: Path
    cert: Path
    key: Path

    @property
    def spark(self) -> dict[str, str]:
        """Spark's settings for TLS between its processes, and with its shuffle service."""
        return {
            "spark.ssl.rpc.enabled": "true",
            "spark.ssl.rpc.protocol": "TLSv1.3",
            "spark.ssl.rpc.keyStore": str(self.store),
            "spark.ssl.rpc.keyStorePassword": PASSWORD,
            "spark.ssl.rpc.keyPassword": PASSWORD,
            "spark.ssl.rpc.trustStore": str(self.store),
            "spark.ssl.rpc.trustStorePassword": PASSWORD,
        }

    @property
    def daemon(self) -> tuple[str, ...]:
        """The flags of a daemon with this certificate."""
        return "--tls-cert", str(self.cert), "--tls-key", str(self.key)


def certificate(folder: Path, begins: str = "-1H", days: int = 90) -> Certificate:
    """Makes one that is valid for this number of days, from a time in the form of `keytool`."""
    made = Certificate(folder / "store.p12", folder / "cert.pem", folder / "key.pem")
    run(
        # In local time a day may have another length than 24 hours.
        *"keytool -J-Duser.timezone=UTC -genkeypair -keyalg RSA -alias spark".split(),
        *("-dname", "CN=localhost"),
        *"-ext SAN=dns:localhost,ip:127.0.0.1 -storetype PKCS12".split(),
        *("-startdate", begins, "-validity", str(days)),
        *("-keystore", made.store, "-storepass", PASSWORD),
    )
    pkcs12 = ("openssl", "pkcs12", "-in", made.store, "-passin", f"pass:{PASSWORD}", "-nodes")
    run(*pkcs12, "-nokeys", "-out", made.cert)
    run(*pkcs12, "-nocerts", "-out", made.key)
    return made


def run(*command) -> None:
    subprocess.run(command, check=True, capture_output=True)
