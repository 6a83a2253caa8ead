// SPDX-License-Identifier: Apache-2.0
//! The checks of an application that has run, by its event log.

use crate::operator::doctor::finding::checks;

checks! { ALL:

REPORT "report" Warning
    "the event log has no report of the plugin, or not the whole one"
    "Let the application use Lodestone, and read the log after its end."

SUMS "sums" Warning
    "shuffles ran, and not one was merged or remote for a reason that can be changed"
    "See the reasons below."

RERUN "rerun" Warning
    "all maps of a remote shuffle ran again"
    "Find out why the daemon ended, or set spark.lodestone.replicas=2."

LEFT_TO_SPARK "left-to-spark" Warning
    "a shuffle was left to plain Spark for a reason that can be changed"
    "The remedy of the reason."

ORIGINALS "originals" Warning
    "readers took originals of a merged shuffle, one by one, for a reason that can be changed"
    "The remedy of the reason that counts most."

WAITED "waited" Warning
    "readers waited for pushes for a second or more; for less it is a note"
    "Start more services, or lower spark.lodestone.push.timeout: readers take the originals of \
     what comes later."

TROUBLE "trouble" Warning
    "a shuffle had other reasons that can be changed"
    "The remedy of the reason that counts most."

SERVICE_AT_END "service-at-end" Warning
    "at the end of the application, the driver did not use a service that the settings name"
    "Ask the service itself: lodestone doctor --services HOST:PORT."
}
