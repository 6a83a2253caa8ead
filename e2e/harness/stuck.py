# SPDX-License-Identifier: Apache-2.0
"""The state of a job whose test failed: the end of its log, and the stacks of its JVMs if it still
runs."""

import subprocess

from .processes import command_line, descendants
from .spark_process import SparkProcess

LOG_CHARACTERS = 6000
STACK_CHARACTERS = 30000
JSTACK_TIMEOUT_S = 30


def story_of(job: SparkProcess) -> str:
    """Returns this state for a reader of the test's report."""
    code = job.process.poll()
    state = "still runs" if code is None else f"has ended with exit code {code}"
    jvms = [pid for pid in descendants(job.process.pid) if _is_jvm(pid)]
    stacks = [f"-- {' '.join(command_line(pid)[-8:])}\n{_stacks(pid)}" for pid in jvms]
    log = f"-- process {job.process.pid} {state}; its log:\n{job.log()[-LOG_CHARACTERS:]}"
    return "\n".join([*stacks, log])


def _is_jvm(pid: int) -> bool:
    return any(program.endswith("java") for program in command_line(pid)[:1])


def _stacks(pid: int) -> str:
    """Returns the stacks of all threads. If the JVM does not answer, it says so."""
    try:
        command = ["jstack", str(pid)]
        done = subprocess.run(command, capture_output=True, timeout=JSTACK_TIMEOUT_S, text=True)
        return (done.stdout + done.stderr)[-STACK_CHARACTERS:]
    except subprocess.TimeoutExpired:
        return f"jstack had no answer from {pid} within {JSTACK_TIMEOUT_S} s"
