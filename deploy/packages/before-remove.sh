#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ends the service when the package goes. Debian calls this with "upgrade" for a new version, Fedora with the number of
# versions that stay.
set -e
case "$1" in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl disable --now lodestone.service
    fi
    ;;
esac
