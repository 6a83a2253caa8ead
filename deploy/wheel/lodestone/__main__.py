# SPDX-License-Identifier: Apache-2.0
"""`python -m lodestone` is the command `lodestone`."""

from .program import main

main()
