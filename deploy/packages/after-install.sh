#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The user of the service and its directory, on the first installation. systemd would make the
# directory at the first start (StateDirectory=), and `lodestone doctor` looks at it before that.
# What an administrator has put there stays as it is until the service starts: then systemd gives
# the directory mode 0700 and this user, and also what is in it if the directory had another owner.
# A service that runs goes on with the program that it has.
set -e
getent group lodestone >/dev/null || groupadd --system lodestone
getent passwd lodestone >/dev/null ||
  useradd --system --gid lodestone --home-dir /var/lib/lodestone --no-create-home --shell /usr/sbin/nologin lodestone
state=/var/lib/lodestone
if [ ! -e "$state" ] && [ ! -L "$state" ]; then
  install -d -m 0700 -o lodestone -g lodestone "$state"
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
