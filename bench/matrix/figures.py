# SPDX-License-Identifier: Apache-2.0
"""Converts the result of a run to the figures of the table: seconds by phase, bytes, CPU, memory.
All of one run, as a flat dict."""

MS = 1000.0
MB = 1e6


def of_run(result: dict) -> dict[str, float]:
    """Returns the figures of a run. Tasks define the phases: a map stage is over when its last task
    is, whatever the driver does before the next one begins."""
    stages = result["stages"]
    mapping = [one for one in stages if writes(one) and not reads(one)]
    reducing = [one for one in stages if reads(one)]
    report = result["report"]
    return {
        "seconds": result["seconds"],
        "mapSeconds": covered(mapping),
        "reduceSeconds": covered(reducing),
        "gapSeconds": idle(stages, result["paused"]) + waited(report),
        "fetchWaitSeconds": total(reducing, "fetchWaitMs") / MS,
        "writtenMb": total(stages, "writtenBytes") / MB,
        "readMb": total(stages, "readBytes") / MB,
        "mergedMb": total(stages, "mergedBytes") / MB,
        "blocksRead": total(stages, "readBlocks"),
        "spilledMb": total(stages, "spilledBytes") / MB,
        "failedTasks": total(stages, "failed"),
        "gcSeconds": total(stages, "gcMs") / MS,
        "taskCpuSeconds": total(stages, "cpuMs") / MS,
        "mapCpuSeconds": total(mapping, "cpuMs") / MS,
        "reduceCpuSeconds": total(reducing, "cpuMs") / MS,
        **processes(result["used"]),
        **service(result["used"], report),
        **wire(result),
        **disturbed(result["used"], result["machine"]),
    }


def processes(used: dict) -> dict[str, float]:
    cpu = {kind: used[kind]["cpu"] for kind in used}
    peaks = {f"{kind}PeakMb": used[kind]["peakMb"] for kind in used}
    return {f"{kind}CpuSeconds": seconds for kind, seconds in cpu.items()} | peaks | {
        "cpuSeconds": sum(cpu.values())
    }  # fmt: skip


def disturbed(used: dict, machine: dict) -> dict[str, float]:
    """Returns CPU seconds of processes other than ours, and of other guests of the host."""
    ours = sum(kind["cpu"] for kind in used.values())
    others = max(0.0, machine["machineCpu"] - ours)
    return {"othersCpuSeconds": others, "stolenSeconds": machine["stolen"]}


def service(used: dict, report: dict) -> dict[str, float]:
    """Returns CPU seconds of Lodestone's daemon for each GB in and out."""
    moved = report.get("bytesPushed", 0) + report.get("chunkBytes", 0)
    return {"serviceCpuPerGb": used["services"]["cpu"] / (moved / 1e9)} if moved else {}


def wire(result: dict) -> dict[str, float]:
    """Returns what hosts sent each other, with the heads of packets."""
    return {"wireMb": result["sent"] / MB} if "sent" in result else {}


def reads(stage: dict) -> bool:
    return stage["readRecords"] > 0


def writes(stage: dict) -> bool:
    return stage["writtenRecords"] > 0


def total(stages: list[dict], what: str) -> float:
    return sum(stage[what] for stage in stages)


def covered(stages: list[dict]) -> float:
    """Returns the seconds in which at least one of these stages ran."""
    seconds, end = 0.0, 0
    for began, ended in sorted((stage["beganMs"], stage["endedMs"]) for stage in stages):
        seconds += max(0, ended - max(began, end)) / MS
        end = max(end, ended)
    return seconds


def idle(stages: list[dict], paused: float) -> float:
    """Returns the seconds without tasks between the first task and the last, except for the pause
    of the bench itself."""
    if not stages:
        return 0.0
    began = min(stage["beganMs"] for stage in stages)
    ended = max(stage["endedMs"] for stage in stages)
    return max(0.0, (ended - began) / MS - covered(stages) - paused)


def waited(report: dict) -> float:
    """Returns the seconds that readers of Lodestone waited in their tasks for the end of the
    merge."""
    return report.get("readersWaitedMillis", 0) / MS
