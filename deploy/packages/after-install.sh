#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The user of the service, on the first installation. A service that runs goes on with the program
# that it has.
set -e
getent group lodestone >/dev/null || groupadd --system lodestone
getent passwd lodestone >/dev/null ||
  useradd --system --gid lodestone --home-dir /var/lib/lodestone --no-create-home --shell /usr/sbin/nologin lodestone
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
