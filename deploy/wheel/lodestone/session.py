# SPDX-License-Identifier: Apache-2.0
"""Switches Lodestone on for a session of PySpark that has not started."""

import json
import logging
import os
import re
import subprocess
from pathlib import Path
from typing import Dict, Optional

from .program import PROGRAM, spark_home

log = logging.getLogger("lodestone")

SERIALIZER = "spark.serializer"
DRIVER_CLASS_PATH = "spark.driver.extraClassPath"
CLASS_PATHS = (DRIVER_CLASS_PATH, "spark.executor.extraClassPath")
MODE = "spark.lodestone.mode"


def configure(builder, mode: Optional[str] = None) -> str:
    """Adds the keys that switch Lodestone on to a `SparkSession.builder`.

    Entries of class paths that the builder or spark-defaults.conf has stay, and so does a
    serializer. Logs one line that says what it did, and returns this line. Raises RuntimeError if
    it is too late, or if this Spark cannot have the plugin.
    """
    options = _options(builder)
    home = _home_of_pyspark(options)
    conf, note = _asked(home, mode)
    jar = conf[DRIVER_CLASS_PATH]
    _check_jvm(jar)
    before = {**_defaults(home), **options}
    if SERIALIZER in before:
        del conf[SERIALIZER]
    for key in CLASS_PATHS:
        conf[key] = _appended(before.get(key, ""), jar)
    for key, value in conf.items():
        builder.config(key, value)
    said = _line(before, conf, jar) + note
    log.info("%s", said)
    return said


def _options(builder) -> Dict[str, str]:
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise RuntimeError(
            "Lodestone needs PySpark, which this Python lacks: pip install pyspark"
        ) from error
    # No method of the builder returns them.
    return {key: str(value) for key, value in builder._options.items()}


def _home_of_pyspark(options: Dict[str, str]) -> Path:
    home = spark_home()
    if home is None or "spark.remote" in options or "SPARK_REMOTE" in os.environ:
        raise RuntimeError(
            "this session connects to a Spark server, which has started with a shuffle manager: "
            "start the server with the options that `lodestone conf` prints there"
        )
    return home


def _asked(home: Path, mode: Optional[str]):
    """Returns the keys for this Spark, and a note about it, which may be empty."""
    command = [str(PROGRAM), "conf", "--format", "json"]
    if mode is not None:
        command += ["--mode", mode]
    asked = subprocess.run(
        command,
        env={**os.environ, "SPARK_HOME": str(home)},
        capture_output=True,
        text=True,
    )
    said = asked.stderr.strip()
    if asked.returncode != 0:
        raise RuntimeError(said)
    return json.loads(asked.stdout), said and f"; {said}"


def _check_jvm(jar: str) -> None:
    """Fails if the JVM of this process runs and does not have the jar: no key adds it any more."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise RuntimeError(
            "a SparkContext is active, and its shuffle manager cannot be changed: call "
            "lodestone.configure before the first session starts"
        )
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if is_submitted:
        SparkContext._ensure_initialized()
    if SparkContext._gateway is None:
        return
    system = SparkContext._gateway.jvm.java.lang.System
    if jar in system.getProperty("java.class.path").split(os.pathsep):
        return
    raise RuntimeError(
        f"the JVM of this process runs without {jar}: "
        + (
            "start the job with `spark-submit $(lodestone conf)`"
            if is_submitted
            else "call lodestone.configure in a new process, before the first session starts"
        )
    )


def _defaults(home: Path) -> Dict[str, str]:
    """Returns the keys of spark-defaults.conf, which those of the builder replace."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    try:
        text = (folder / "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = (re.match(r"\s*([^\s=:#!][^\s=:]*)[\s=:]+(.*?)\s*$", line) for line in text.split("\n"))
    return {line[1]: line[2] for line in lines if line}


def _appended(entries: str, jar: str) -> str:
    have = [entry for entry in entries.split(os.pathsep) if entry]
    return os.pathsep.join(have if jar in have else [*have, jar])


def _line(before: Dict[str, str], conf: Dict[str, str], jar: str) -> str:
    mode = conf.get(MODE, before.get(MODE, "auto"))
    serializer = "" if SERIALIZER in conf else f", and the serializer stays {before[SERIALIZER]}"
    is_local = before.get("spark.master", "").startswith("local")
    hosts = "" if is_local else "; each host with executors needs the jar at this path"
    return f"Lodestone is on, in mode {mode}, with {jar}{serializer}{hosts}"
