# SPDX-License-Identifier: Apache-2.0
"""A short form of `make attack`: no hostile client and no broken disk makes a request of an honest
connection fail, stops the daemon, or makes it use more memory than it may."""

import pytest

from attack.attacks import ALL
from attack.siege import MEMORY_MIB, SLACK_MIB, Times, besiege

SHORT = Times(calm_s=0.7, attack_s=1.5)
CONNECTIONS = 50


@pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.name)
def test_honest_connections_are_served_while(attack):
    outcome = besiege(attack, SHORT, CONNECTIONS)
    assert outcome.failures == []
    assert outcome.requests > CONNECTIONS
    assert outcome.ended
    assert outcome.peak_mib <= MEMORY_MIB + SLACK_MIB
