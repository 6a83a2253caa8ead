#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The user and /var/lib/lodestone stay: an administrator may have other files of this user.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
