// SPDX-License-Identifier: Apache-2.0
//! The checks of Spark's settings. Those with the name of a reason have its remedy, as
//! `docs/reasons.md` has it; a test compares the two.

use crate::operator::doctor::finding::checks;

checks! { ALL:

SHUFFLE_MANAGER "shuffle-manager" Error
    "`spark.shuffle.manager` is not the one of Lodestone: no shuffle is merged"
    "Set spark.shuffle.manager=org.apache.spark.shuffle.lodestone.LodestoneShuffleManager, or \
     remove the other keys of Lodestone."

KEY "key" Error
    "the plugin does not know a key `spark.lodestone.*`"
    "Write the key that is spelled most alike, or remove the key."

VALUE "value" Error
    "the plugin, or Spark, does not take the value of a key"
    "Set the key to a value of its range."

LIMITS "limits" Error
    "the values of two keys of the plugin exclude each other"
    "Change one of the two keys."

REFERENCE "reference" Note
    "values have references (`${...}`), which Spark replaces: checks that depend on them are left \
     out"
    "Add these keys with the values that Spark will have: --conf KEY=VALUE."

MASTER "master" Note
    "spark.master is not known: the checks of cluster managers are left out"
    "Add --conf spark.master=MASTER, with what spark-submit gets."

SPARK_PUSH "spark-push" Error
    "Spark itself merges, so Lodestone leaves all shuffles to it (`SPARK_PUSH`)"
    "Turn spark.shuffle.push.enabled off."

CUSTOM_SHUFFLE_IO "custom-shuffle-io" Error
    "map outputs are elsewhere, and all shuffles are left to plain Spark (`CUSTOM_SHUFFLE_IO`)"
    "Nothing, or remove the shuffle IO plugin (spark.shuffle.sort.io.plugin.class)."

OLD_FETCH_PROTOCOL "old-fetch-protocol" Error
    "map attempts have no ids, and all shuffles are left to plain Spark (`OLD_FETCH_PROTOCOL`)"
    "Turn spark.shuffle.useOldFetchProtocol off: only external shuffle services of Spark 2 need \
     it."

CIPHER_UNKNOWN "cipher-unknown" Error
    "services do not have the encryption, and all shuffles are left to plain Spark \
     (`CIPHER_UNKNOWN`)"
    "Set spark.network.crypto.enabled=true, and leave spark.network.crypto.cipher as it is \
     (AES/CTR/NoPadding), or set it to AES/GCM/NoPadding (Spark 4)."

SECRET_NOT_SHARED "secret-not-shared" Error
    "services do not have Spark's secret, and all shuffles are left to plain Spark \
     (`SECRET_NOT_SHARED`)"
    "Use the daemon that the plugin starts (without spark.lodestone.services), or on YARN those \
     of the NodeManagers; on Kubernetes, give Spark the secret in a file \
     (spark.authenticate.secret.file)."

RPC_ENCRYPTION "rpc-encryption" Error
    "the daemon that the plugin starts has no certificate, and all shuffles are left to plain \
     Spark (`RPC_ENCRYPTION`)"
    "Name services with certificates of their own. Or, for the daemon that the plugin starts, set \
     spark.ssl.rpc.certChain and spark.ssl.rpc.privateKey to absolute paths: Spark then trusts \
     what is in the former, and no trust store."

TLS_KEYS "tls-keys" Error
    "`spark.ssl.rpc.enabled` is on, and Spark finds no keys: it does not start"
    "Set spark.ssl.rpc.keyStore, or spark.ssl.rpc.openSslEnabled=true with both \
     spark.ssl.rpc.certChain and spark.ssl.rpc.privateKey."

SERIALIZER "serializer-not-relocatable" Warning
    "shuffles of RDDs with other keys or values than numbers, texts and arrays of numbers are left \
     to plain Spark (`SERIALIZER_NOT_RELOCATABLE`); Spark SQL and PySpark have serializers of \
     their own. A note if spark.serializer is not set"
    "Set spark.serializer to Kryo, if your classes allow it."

CODEC "codec-not-concatenable" Warning
    "the codec cannot be concatenated: shuffles are left to plain Spark \
     (`CODEC_NOT_CONCATENABLE`)"
    "Use lz4, zstd, snappy or lzf."

ENGINE "engine" Warning
    "an engine is there that does not know this shuffle manager, or was not tested with it"
    "Set spark.shuffle.manager to the manager for this engine: see engines.md."

ENGINE_SHUFFLE "engine-shuffle" Warning
    "the manager of Gluten or Auron in another mode than remote, Comet's writers in Java, or \
     Gluten's writer for graphics processors: these shuffles are left to the engine \
     (`ENGINE_SHUFFLE`)"
    "Set spark.lodestone.mode=remote, and no key that chooses such a writer."

ENGINE_NOT_ENCRYPTED "engine-not-encrypted" Warning
    "`spark.io.encryption.enabled` is on, and the engine does not encrypt its blocks \
     (`ENGINE_NOT_ENCRYPTED`). In mode remote that is all right: the manager turns the engine's \
     shuffles off, unless a key turns them on"
    "Nothing, or encrypt the disks instead: the engine writes plain bytes in any case."

OTHER_SERVICE "other-service" Note
    "keys of Celeborn or Uniffle are set, which have no effect with this manager"
    "Remove them, if the application no longer uses that service."

JAR "jar" Error
    "a class path has the jar of another line of Spark or of another Scala, or no jar"
    "Set spark.driver.extraClassPath and spark.executor.extraClassPath to the jar that `lodestone \
     conf` prints, which must be at the same path on every machine."

DYNAMIC_ALLOCATION "dynamic-allocation" Error
    "Spark refuses to start: nothing protects map outputs from the end of their executors"
    "Set spark.dynamicAllocation.shuffleTracking.enabled=true, or spark.lodestone.mode=remote \
     with services of your own."

REMOTE_DEFAULTS "remote-defaults" Warning
    "in mode remote, a key is set by hand to what Spark needs without Lodestone"
    "Remove the key: the plugin sets it as mode remote needs it."

REMOTE_EMBEDDED "remote-embedded" Warning
    "in mode remote, the only copy of map outputs is at daemons that end with a container or pod"
    "Start services of your own, and name them with spark.lodestone.services."

LOOPBACK "loopback" Error
    "the address of a service is a loopback address: each executor looks on its own host"
    "Name the host of the service, as executors reach it."

HOST_NAME_CACHE "host-name-cache" Note
    "on Kubernetes, JVMs keep the address of a service that comes back with another one for 30 s"
    "Add -Dsun.net.inetaddr.ttl=5 to spark.driver.extraJavaOptions and \
     spark.executor.extraJavaOptions."

MEMORY_OVERHEAD "memory-overhead" Warning
    "a container of YARN or Kubernetes has no memory for the daemon that the plugin starts in it"
    "Raise spark.executor.memoryOverhead."

LOCAL_DIRS_TMPFS "local-dirs-tmpfs" Warning
    "`spark.kubernetes.local.dirs.tmpfs` is on: files of the daemon in the pod are in memory"
    "Set spark.kubernetes.local.dirs.tmpfs=false, or name services of your own with \
     spark.lodestone.services."
}
