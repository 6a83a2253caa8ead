# SPDX-License-Identifier: Apache-2.0
"""A short form of `make attack`: no hostile client and no broken disk makes a request of an honest
connection fail or wait for long, during the attack or after it, stops the daemon, or makes it use
more memory than it may."""

import pytest

from attack.attacks import ALL
from attack.honest import LIMIT_S
from attack.siege import Times, besiege
from attack.verdict import verdict

# Requests take some milliseconds. A test machine does other work, too.
ALLOWED_S = 1.0
# One that hangs from the end of the attack on is seen to take longer than that.
SHORT = Times(calm_s=1.2, attack_s=2.0)
CONNECTIONS = 50


@pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.name)
def test_honest_connections_are_served_while(attack):
    outcome = besiege(attack, SHORT, CONNECTIONS)
    assert outcome.requests > CONNECTIONS
    assert outcome.before_s < LIMIT_S, outcome
    # A machine with other work is slow before the attack, too.
    assert verdict(attack, outcome, max(ALLOWED_S, 2 * outcome.before_s)) == "", outcome
