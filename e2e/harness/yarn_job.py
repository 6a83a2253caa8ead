# SPDX-License-Identifier: Apache-2.0
"""A job that `spark-submit` runs on YARN, in client mode or cluster mode."""

import json
import re
import subprocess
import tempfile
from pathlib import Path

from . import jvm
from .daemon import wait_until
from .driver import environment
from .paths import ROOT, plugin_jar, python_of, spark_home
from .processes import command_line
from .spark_process import JOB_TIMEOUT_S, MANAGER, Job, Outcome
from .yarn import Node, Yarn, kill_all, processes_at

EXECUTOR = "YarnCoarseGrainedExecutorBackend"
# The application master of client mode.
MASTER = "org.apache.spark.deploy.yarn.ExecutorLauncher"
SUBMITTED = re.compile(r"Submitted application (application_\d+_\d+)")
LOG_CHARACTERS = 8000
# As docs/deployment.md says: 320 MiB beside Spark's own.
HEAP_MB, OWN_MB, DAEMON_MB = 512, 384, 320


class YarnJob:
    """A job in progress, in a deploy mode; its `master` does not count. The plugin's jar is given
    as docs/deployment.md says. `wait` returns the outcome, or raises with the end of the logs."""

    def __init__(self, spark_version: str, yarn: Yarn, job: Job, mode: str = "client"):
        self._yarn = yarn
        self._is_over = False
        self._folder = Path(tempfile.mkdtemp(prefix="lodestone-e2e-yarn-"))
        self._result = self._folder / "result.json"
        self._log = self._folder / "log.txt"
        specification = self._folder / "job.json"
        asked = {"job": job.name, "arguments": job.arguments, "result": str(self._result)}
        specification.write_text(json.dumps(asked))
        home, conf = spark_home(spark_version), self._configuration(spark_version, job, mode)
        options = [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
        jars = [] if job.is_stock else ["--jars", str(plugin_jar(spark_version))]
        paths = {
            "SPARK_HOME": str(home),
            "HADOOP_CONF_DIR": str(yarn.configuration),
            # Of the installed release, in place of archives to be uploaded.
            "PYSPARK_ARCHIVES_PATH": f"local:{home.parent}",
        }
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [home / "bin" / "spark-submit", "--master", "yarn", "--deploy-mode", mode,
                 *jars, *options, ROOT / "e2e" / "yarn" / "submitted.py", specification],
                cwd=self._folder, env=environment(spark_version) | paths,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def _configuration(self, spark_version: str, job: Job, mode: str) -> dict[str, str]:
        python = str(python_of(spark_version))
        overhead = OWN_MB if job.is_stock else OWN_MB + DAEMON_MB
        conf = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": f"{HEAP_MB}m",
            "spark.driver.extraJavaOptions": jvm.OPTIONS,
            "spark.executor.extraJavaOptions": jvm.OPTIONS,
            "spark.yarn.am.extraJavaOptions": " ".join(jvm.SHORT_LIVED),
            "spark.yarn.am.memory": f"{HEAP_MB}m",
            "spark.executor.instances": "2",
            "spark.executor.memory": f"{HEAP_MB}m",
            "spark.executor.memoryOverhead": f"{overhead}m",
            # Otherwise one executor may run all tasks of a short job.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": "32",
            "spark.yarn.jars": f"local:{spark_home(spark_version)}/jars/*",
            "spark.yarn.stagingDir": f"file://{self._yarn.folder}/staging",
            "spark.yarn.report.interval": "200ms",
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
            "spark.executorEnv.PYSPARK_PYTHON": python,
            # The name of the test's machine may have no address.
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        }
        if mode == "client":
            conf["spark.driver.host"] = "127.0.0.1"
        if not job.is_stock:
            jar = plugin_jar(spark_version)
            conf |= {
                "spark.shuffle.manager": MANAGER,
                # Mode auto does not merge shuffles as small as here.
                "spark.lodestone.mode": "merge",
                "spark.driver.extraClassPath": str(jar) if mode == "client" else jar.name,
                "spark.executor.extraClassPath": jar.name,
            }
        return conf | job.conf

    @property
    def application(self) -> str:
        """The id of the application, once it is submitted."""
        found = self._while_it_runs(lambda: SUBMITTED.search(self.log()), "the application's id")
        return found.group(1)

    def executors(self) -> dict[int, str]:
        """Returns the process ids of the executors, with their hosts."""
        found = {pid: command_line(pid) for pid in processes_at(self.application)}
        return {
            pid: words[words.index("--hostname") + 1]
            for pid, words in found.items()
            if words and words[0].endswith("java") and any(EXECUTOR in word for word in words)
        }

    def node_without_master(self) -> Node:
        """Returns a NodeManager whose end is not that of the application: in client mode, the one
        without the application master, which has one attempt."""
        commands = [command_line(pid) for pid in processes_at(self.application)]
        masters = [str(words) for words in commands if any(MASTER in word for word in words)]
        assert masters, "it has no master yet, or is not in client mode"
        return next(
            node for node in self._yarn.nodes if not any(str(node.folder) in one for one in masters)
        )

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def container_logs(self) -> str:
        """Returns what the containers have written, as far as it is kept."""
        files = sorted(self._yarn.folder.rglob(f"{self.application}/*/stderr"))
        return "\n".join(f"-- {file}\n{file.read_text(errors='replace')}" for file in files)

    def kill(self) -> None:
        """Kills a job whose outcome is not needed, with its containers; after `wait` it does
        nothing."""
        if self._is_over:
            return
        self.process.kill()
        self.process.wait()
        submitted = SUBMITTED.search(self.log())
        if submitted:
            kill_all(lambda: processes_at(submitted.group(1)))

    def wait(self) -> Outcome:
        code = self.process.wait(JOB_TIMEOUT_S)
        if code != 0 or not self._result.exists():
            logs = self.container_logs()[-LOG_CHARACTERS:]
            end = self.log()[-LOG_CHARACTERS:]
            raise AssertionError(f"the job failed with exit code {code}:\n{logs}\n{end}")
        self._is_over = True
        result = json.loads(self._result.read_text())
        stages = [(attempt, tasks) for attempt, tasks in result["stages"]]
        return Outcome(result["answer"], result["report"], self.log(), stages)

    def _while_it_runs(self, condition, what: str):
        def has_come():
            found = condition()
            assert found or self.process.poll() is None, f"no {what}:\n{self.log()[-8000:]}"
            return found

        return wait_until(has_come, what, JOB_TIMEOUT_S)
