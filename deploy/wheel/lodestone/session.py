# SPDX-License-Identifier: Apache-2.0
"""Switches Lodestone on for a session of PySpark that has not started."""

import json
import logging
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Dict, Optional

from .program import PROGRAM, spark_home

log = logging.getLogger("lodestone")

MANAGER = "spark.shuffle.manager"
SERIALIZER = "spark.serializer"
DRIVER_CLASS_PATH = "spark.driver.extraClassPath"
EXECUTOR_CLASS_PATH = "spark.executor.extraClassPath"
MODE = "spark.lodestone.mode"
# They name Spark's own shuffle manager.
SPARKS_MANAGERS = ("", "sort", "tungsten-sort", "org.apache.spark.shuffle.sort.sortshufflemanager")
OUR_MANAGERS = "org.apache.spark.shuffle.lodestone."
# Executors of Spark 4 may get the jar by these settings. Executors of Spark 3.5 need it before they
# fetch jars.
WAYS_OF_JARS = ("spark.jars", "spark.jars.packages", "spark.yarn.dist.jars")
JAR_NAME = re.compile(r"(^|[/:,])lodestone-spark-")


def configure(builder, mode: Optional[str] = None):
    """Adds the keys that switch Lodestone on to a `SparkSession.builder`, and returns this builder.

    Go on with the returned builder: `SparkSession.builder` is a new one each time. Entries of class
    paths stay that the builder, the command line or spark-defaults.conf has, and so do a serializer
    and a shuffle manager of Lodestone for an engine. Says on one line what it did: it logs the
    line, or prints it to stderr if nothing handles logs. Raises RuntimeError if it is too late, if
    there is another shuffle manager, or if this Spark cannot have the plugin.
    """
    options = _options(builder)
    home = _home_of_pyspark(options)
    conf, note = _asked(home, mode)
    jar = conf[DRIVER_CLASS_PATH]
    runs = _jvm_runs(conf[MANAGER])
    before = _settings_of_jvm() if runs else {**_defaults(home), **_arguments()}
    before.update(options)
    _keep_manager(before, conf)
    if SERIALIZER in before:
        del conf[SERIALIZER]
    _add_jar(before, conf, jar, runs)
    for key, value in conf.items():
        builder.config(key, value)
    _say(_line(before, conf, jar) + note)
    return builder


def _keep_manager(before: Dict[str, str], conf: Dict[str, str]) -> None:
    theirs = before.get(MANAGER, "")
    if theirs.lower() in SPARKS_MANAGERS or theirs == conf[MANAGER]:
        return
    if theirs.startswith(OUR_MANAGERS):
        del conf[MANAGER]
    else:
        raise RuntimeError(
            f"{MANAGER} is {theirs} already: leave out this setting, or Lodestone. For native "
            f"engines Lodestone has managers of its own, {OUR_MANAGERS}*"
        )


def _add_jar(before: Dict[str, str], conf: Dict[str, str], jar: str, runs: bool) -> None:
    """Adds the jar to class paths. A JVM that runs has the plugin already."""
    conf[DRIVER_CLASS_PATH] = _appended(before.get(DRIVER_CLASS_PATH, ""), jar)
    conf[EXECUTOR_CLASS_PATH] = _appended(before.get(EXECUTOR_CLASS_PATH, ""), jar)
    if runs:
        del conf[DRIVER_CLASS_PATH]
        if _have_executors(before):
            del conf[EXECUTOR_CLASS_PATH]


def _have_executors(before: Dict[str, str]) -> bool:
    """Returns whether the settings bring the jar to executors already."""
    import pyspark

    keys = [EXECUTOR_CLASS_PATH]
    if not pyspark.__version__.startswith("3."):
        keys += WAYS_OF_JARS
    return any(JAR_NAME.search(before.get(key, "")) for key in keys)


def _say(line: str) -> None:
    if log.hasHandlers():
        log.info("%s", line)
    else:
        print(f"lodestone: {line}", file=sys.stderr)


def _options(builder) -> Dict[str, str]:
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise RuntimeError(
            "Lodestone needs PySpark, which this Python lacks: pip install pyspark"
        ) from error
    # No method of the builder returns them.
    return {key: str(value) for key, value in builder._options.items() if value is not None}


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


def _jvm_runs(manager: str) -> bool:
    """Returns whether the JVM of this process runs. Fails if it runs without the plugin: no key
    adds a jar any more."""
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
        return False
    if not _is_loaded(SparkContext._gateway.jvm, manager):
        raise RuntimeError(
            "the JVM of this process runs without the jar of Lodestone: "
            + (
                "start the job with `spark-submit $(lodestone conf)`"
                if is_submitted
                else "call lodestone.configure in a new process, before the first session starts"
            )
        )
    return True


def _is_loaded(jvm, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError:
        return False
    return True


def _arguments() -> Dict[str, str]:
    """Returns the settings in PYSPARK_SUBMIT_ARGS. Fails if they have class paths, which replace
    those of a builder: PySpark adds these arguments after its own."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    following = zip(words, words[1:])
    pairs = [word.partition("=") for option, word in following if option in ("--conf", "-c")]
    settings = {key: value for key, _, value in pairs}
    if "--driver-class-path" in words or {DRIVER_CLASS_PATH, EXECUTOR_CLASS_PATH} & set(settings):
        raise RuntimeError(
            "PYSPARK_SUBMIT_ARGS sets class paths, which replace those of a builder: add to it the "
            "options that `lodestone conf` prints, and leave lodestone.configure out"
        )
    return settings


def _settings_of_jvm() -> Dict[str, str]:
    """Returns the settings of the JVM that runs: of its command line, and of files."""
    from pyspark import SparkConf

    return dict(SparkConf().getAll())


def _defaults(home: Path) -> Dict[str, str]:
    """Returns the keys of spark-defaults.conf, which those of the builder replace."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    try:
        text = (folder / "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    # A backslash at the end of a line continues it, but for comments.
    text = re.sub(r"^[ \t]*[#!].*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\\\r?\n[ \t]*", "", text)
    lines = (re.match(r"\s*([^\s=:#!][^\s=:]*)[\s=:]+(.*?)\s*$", line) for line in text.split("\n"))
    return {line[1]: line[2] for line in lines if line}


def _appended(entries: str, jar: str) -> str:
    have = [entry for entry in entries.split(os.pathsep) if entry]
    return os.pathsep.join(have if jar in have else [*have, jar])


def _line(before: Dict[str, str], conf: Dict[str, str], jar: str) -> str:
    mode = conf.get(MODE, before.get(MODE, "auto"))
    serializer = "" if SERIALIZER in conf else f", and the serializer stays {before[SERIALIZER]}"
    manager = "" if MANAGER in conf else f", and the manager stays {before[MANAGER]}"
    is_local = before.get("spark.master", "").startswith("local")
    hosts = "" if is_local else "; each host with executors needs the jar at this path"
    return f"Lodestone is on, in mode {mode}, with {jar}{manager}{serializer}{hosts}"
