# SPDX-License-Identifier: Apache-2.0
"""The page of a daemon: an operator sees on a phone how it is, and what it holds for whom."""

import re
import socket
import subprocess

from harness.chromium import chromium
from harness.paths import BENCH
from harness.spark_process import Job

PHONE = {"width": 360, "height": 740}


def test_the_page_of_a_daemon_shows_on_a_phone_what_it_does_and_what_it_holds(
    spark, start_daemon, start_job, plain_answer, gates, tmp_path
):
    daemon = start_daemon()
    conf = {"spark.lodestone.mode": "remote", "spark.lodestone.services": daemon.host_port}
    asked = Job("keyed_rows", {"maps": 6, "partitions": 8, "gates": gates.address}, conf=conf)
    running = start_job(asked)
    gates.open_all(but=("between-0",))
    gates.wait_reached("between-0")
    with chromium() as browser:
        page = browser.new_page(viewport=PHONE)
        noted = []
        page.on("console", lambda message: noted.append(message.text))
        page.on("pageerror", lambda error: noted.append(str(error)))
        page.goto(f"http://127.0.0.1:{daemon.admin_port}/")
        page.wait_for_selector("#state:has-text('serving')")
        application = page.locator("#apps .row").inner_text()
        assert re.search(r"remote shuffles: 1\s", application), application
        assert re.search(r"\d+ KiB, \d+ KiB of them in memory only", application), application
        now = page.locator("#now").inner_text()
        assert re.search(r"48\s+segments merged so far", now), now
        assert str(tmp_path) in page.locator("#disks .row").inner_text()
        # After the second look there are rates.
        page.wait_for_selector("#now .tile:has-text('/s')")
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        page.screenshot(path=tmp_path / "phone.png", full_page=True)
        gates.open("between-0")
        assert running.wait().answer == plain_answer(asked)
        page.wait_for_selector("#apps:has-text('none')")
        daemon.stop()
        page.wait_for_selector("#state:has-text('does not answer')")
        # A browser notes that it cannot connect.
        assert [text for text in noted if "ERR_CONNECTION" not in text] == []


def test_the_page_shows_who_sends_and_takes_data_and_which_client_is_slow(start_daemon):
    daemon = start_daemon()
    half = socket.create_connection(("127.0.0.1", daemon.port))
    # The beginning of a frame of a thousand bytes.
    half.sendall((1000).to_bytes(8, "big") + b"\x03")
    command = [BENCH, "fetch", "--server", daemon.host_port, "--from", "merged"]
    command += "--block 10k --total 64m --connections 8 --rounds 1000".split()
    with chromium() as browser:
        page = browser.new_page(viewport=PHONE)
        page.goto(f"http://127.0.0.1:{daemon.admin_port}/")
        page.wait_for_selector("#slow .row:has-text('sends the rest of a request slowly')")
        assert re.search(r"not known yet, 127.0.0.1\s", page.locator("#slow").inner_text())
        load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            row = page.wait_for_selector("#traffic .row:has-text('MiB/s')").inner_text()
        finally:
            load.kill()
            load.wait()
        assert re.search(r"^(?!not known)\S+, 127\.0\.0\.1\s", row), row
        assert re.search(r"sends [\d.]+ \w+/s\s+takes [\d.]+ \w+/s\s+connections: \d", row), row
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        page.wait_for_selector("#traffic:has-text('nobody')")
        half.close()
        page.wait_for_selector("#slow:has-text('none')")
