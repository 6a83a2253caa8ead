# SPDX-License-Identifier: Apache-2.0
"""A hostile client as a process: `python -m attack.press NAME HOST PORT ADMIN SECONDS DIRECTORY`.
It prints a line when it is prepared, and then attacks until its time is over."""

import sys

from . import connections, readers, tenants, uploads
from .target import Target

if __name__ == "__main__":
    name, host, port, admin, seconds, directory = sys.argv[1:]
    modules = (connections, readers, tenants, uploads)
    (client,) = [getattr(module, name) for module in modules if hasattr(module, name)]
    client(Target(host, int(port), int(admin), float(seconds), directory))
