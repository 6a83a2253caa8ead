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
}
