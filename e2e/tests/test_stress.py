# SPDX-License-Identifier: Apache-2.0
"""The bars in the plots of `lodestone-bench`."""

import pytest
from stress.figures import FIGURES, bars

PUSHING, FETCHING, THROUGHPUT, CPU, MEMORY = FIGURES


def line(server: str, phase: str, block: str, seconds: float, **others) -> dict:
    spread = {"median": seconds, "least": seconds, "most": seconds}
    rate = {name: 100 / value for name, value in spread.items()}
    measured = {"seconds": spread, "megabytes_a_second": rate}
    unknown = {"cpu_seconds_per_gb": None, "peak_rss_bytes": None}
    return {"server": server, "phase": phase, "block": block, **measured, **unknown, **others}


SUMMARY = [
    line("lodestone", "push", "10000b", 2.0, cpu_seconds_per_gb=0.5, peak_rss_bytes=3 << 20),
    line("spark", "push", "10000b", 8.0),
    line("lodestone", "fetch_merged", "10000b", 1.0),
    line("lodestone", "fetch_originals", "10000b", 4.0),
    line("lodestone", "push", "1000000b", 1.0),
]


def test_servers_stand_side_by_side_at_each_size_of_blocks():
    assert bars(PUSHING, SUMMARY) == {
        "10000b": {"lodestone": 2.0, "spark": 8.0},
        "1000000b": {"lodestone": 1.0},
    }


def test_merged_and_original_blocks_are_groups_of_their_own():
    groups = bars(FETCHING, SUMMARY)
    assert groups == {
        "10000b\nfetch merged": {"lodestone": 1.0},
        "10000b\nfetch originals": {"lodestone": 4.0},
    }
    assert bars(THROUGHPUT, SUMMARY)["10000b\nfetch merged"] == {"lodestone": pytest.approx(100)}


def test_a_server_whose_process_is_unknown_has_no_bar_of_cpu_and_memory():
    assert bars(CPU, SUMMARY) == {"10000b\npush": {"lodestone": 0.5}}
    assert bars(MEMORY, SUMMARY) == {"10000b\npush": {"lodestone": 3.0}}
