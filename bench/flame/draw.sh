#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Draws stacks as a flame graph: collapsed ones (`frame;frame;frame count`), or with the second
# argument `perf` those of `perf script`.
# usage: bench/flame/draw.sh TITLE [perf] <stacks >graph.svg   from the project's folder
set -euo pipefail
version=0.12.8
bin=.cache/inferno-$version/bin
# inferno is a program of its own, and not a library in our lock file: its licence is the CDDL.
[ -x "$bin/inferno-flamegraph" ] ||
    cargo install --quiet --locked --version "$version" --root "${bin%/bin}" inferno >&2

stacks() {
    case ${1:-} in
        # Removes the hashes in the names of Rust functions, which differ between generic instances.
        perf) "$bin/inferno-collapse-perf" | sed -E 's/::h[0-9a-f]{16}//g' ;;
        *) cat ;;
    esac
}

stacks "${2:-}" | "$bin/inferno-flamegraph" --title "$1"
