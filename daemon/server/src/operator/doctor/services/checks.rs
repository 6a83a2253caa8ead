// SPDX-License-Identifier: Apache-2.0
//! The checks of services, from this host.

use crate::operator::doctor::finding::checks;

checks! { ALL:

ADDRESS "address" Error
    "the address of a service is no HOST:PORT, or its name does not resolve on this host"
    "Correct spark.lodestone.services, or the name service of this host."

REACH "reach" Error
    "no daemon answers at the address within 5 s, or an answer takes more than a second"
    "Start the daemon, or open the port from this host to it. Spark's own shuffle service uses \
     port 7337 as well."

PROTOCOL "protocol" Error
    "the daemon speaks another version of the protocol, or is no Lodestone service"
    "Install plugin and daemon of the same release."

VERSION "version" Note
    "services, or this program, have different versions"
    "Upgrade them, one after the other."

STATE "state" Error
    "the service is drained, its disks are full or have failed, or it is short of memory"
    "Cancel the drain (`lodestone drain --cancel`), give it more disk space or --memory, or \
     replace the disk."

SAME "same-service" Error
    "two addresses are of one daemon, or replicas would be on one host or in one zone"
    "Name each service once, and for spark.lodestone.replicas=2 at least two, on different hosts."

SECRET "secret" Error
    "the service has another secret than the application or none, or asks for one"
    "Give the service the secret of the application (--secrets), and the application the same one \
     (spark.authenticate.secret)."

ENCRYPTION "encryption" Error
    "the service takes encrypted connections only, and the application authenticates without \
     encryption"
    "Set spark.network.crypto.enabled=true, or start the daemon without --encrypted-only."

TLS "tls" Error
    "`spark.ssl.rpc.enabled` is on, and the service has no certificate"
    "Start the daemon with --tls-cert and --tls-key."

TLS_CERTIFICATE "tls-certificate" Error
    "the certificate that the service shows is not valid yet, has expired or expires soon (in 30 \
     days, or in the last third of its time), or nothing that the application trusts has signed it. \
     A warning if JVMs take it nevertheless, a note if they take any"
    "Give the daemon a certificate that is valid (--tls-cert, --tls-key): it reads changed files \
     before the next connection."

SERVICE_CLOCK "service-clock" Warning
    "the clock of a service is more than 5 s from that of this host, as its admin endpoint says. \
     Logs are hard to compare then, and one of the two judges certificates and tokens by a wrong \
     time; no data depends on it, and no lease. A note if the time of a service is unknown"
    "Start a time service, such as chrony, on the host whose clock is wrong."
}
