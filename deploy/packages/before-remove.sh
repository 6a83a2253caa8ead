#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ends the service when the package goes. Debian calls this with "upgrade" for a new version, Fedora
# with the number of versions that stay.
case "$1" in
  remove | 0)
    # What fails here must not keep the package.
    systemctl disable lodestone.service || true
    if [ -d /run/systemd/system ]; then
      systemctl stop lodestone.service || true
    fi
    ;;
esac
