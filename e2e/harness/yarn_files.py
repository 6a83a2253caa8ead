# SPDX-License-Identifier: Apache-2.0
"""The files that configure the processes of YARN."""

from pathlib import Path
from xml.sax.saxutils import escape

# What the memory monitor sees, container by container.
MONITOR = "org.apache.hadoop.yarn.server.nodemanager.containermanager.monitor.ContainersMonitorImpl"
LOGGING = f"""
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n
log4j.logger.{MONITOR}=DEBUG
"""
QUEUE = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.5",
    # A request waits for no node with data.
    "yarn.scheduler.capacity.node-locality-delay": "-1",
}


def site(folder: Path, settings: dict[str, str]) -> None:
    """Makes a folder with the configuration of a process, whose files are on this machine."""
    folder.mkdir(parents=True)
    _write(folder / "core-site.xml", {"fs.defaultFS": "file:///"})
    _write(folder / "yarn-site.xml", settings)


def capacity_of_one_queue(folder: Path) -> None:
    _write(folder / "capacity-scheduler.xml", QUEUE)


def logging(folder: Path) -> None:
    (folder / "log4j.properties").write_text(LOGGING)


def _write(file: Path, settings: dict[str, str]) -> None:
    properties = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    file.write_text(f"<configuration>\n{properties}</configuration>\n")
