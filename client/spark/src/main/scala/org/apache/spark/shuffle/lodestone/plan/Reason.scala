// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import scala.collection.mutable.ArrayBuffer

/**
 * The reason why Lodestone did less than it could have. Each decision has one code, the same in
 * logs, reports and metrics. Users read the sentence, and the remedy in Spark's UI.
 */
private[spark] final case class Reason private (code: String, sentence: String, remedy: String) {
  override def toString: String = code
}

private[spark] object Reason {
  private val defined = ArrayBuffer.empty[Reason]

  private def reason(code: String, sentence: String, remedy: String): Reason = {
    val made = new Reason(code, sentence, remedy)
    defined += made
    made
  }

  // The shuffle is left to plain Spark.
  val SerializerNotRelocatable =
    reason(
      "SERIALIZER_NOT_RELOCATABLE",
      "the serializer cannot be concatenated",
      "Set spark.serializer to Kryo, if your classes allow it.")
  val CodecNotConcatenable =
    reason(
      "CODEC_NOT_CONCATENABLE",
      "the compression codec cannot be concatenated",
      "Use lz4, zstd, snappy or lzf.")
  val BarrierStage = reason(
    "BARRIER_STAGE",
    "barrier stages are not merged",
    "Nothing: Spark runs and repeats such stages as a whole.")
  val CipherUnknown =
    reason(
      "CIPHER_UNKNOWN",
      "Spark encrypts with SASL or an unknown cipher, which services do not",
      "Set spark.network.crypto.enabled=true, and leave spark.network.crypto.cipher as it is " +
        "(AES/CTR/NoPadding), or set it to AES/GCM/NoPadding (Spark 4).")
  val SecretNotShared = reason(
    "SECRET_NOT_SHARED",
    "Spark makes a secret for each application here, which the named services cannot know",
    "Use the daemon that the plugin starts (without spark.lodestone.services), or on YARN " +
      "those of the NodeManagers; on Kubernetes, give Spark the secret in a file " +
      "(spark.authenticate.secret.file).")
  val RpcEncryption =
    reason(
      "RPC_ENCRYPTION",
      "spark.ssl.rpc.enabled is on, and its certificate is not in PEM files",
      "Name services with certificates of their own. Or, for the daemon that the plugin " +
        "starts, set spark.ssl.rpc.certChain and spark.ssl.rpc.privateKey to absolute paths: " +
        "Spark then trusts what is in the former, and no trust store.")
  val SingleMap = reason(
    "SINGLE_MAP",
    "there is only one map task: merging needs several",
    "Nothing.")
  val NoPartitions =
    reason(
      "NO_PARTITIONS",
      "the shuffle has no partitions: there is nothing to merge",
      "Nothing.")
  val SparkPush = reason(
    "SPARK_PUSH",
    "spark.shuffle.push.enabled is on, so Spark itself merges",
    "Turn spark.shuffle.push.enabled off.")
  val CustomShuffleIo =
    reason(
      "CUSTOM_SHUFFLE_IO",
      "a shuffle IO plugin keeps map outputs elsewhere",
      "Nothing, or remove the shuffle IO plugin (spark.shuffle.sort.io.plugin.class).")
  val OldFetchProtocol = reason(
    "OLD_FETCH_PROTOCOL",
    "with spark.shuffle.useOldFetchProtocol map attempts have no ids of their own",
    "Turn spark.shuffle.useOldFetchProtocol off: only external shuffle services of Spark 2 " +
      "need it.")
  val EngineShuffle = reason(
    "ENGINE_SHUFFLE",
    "the engine writes this kind of shuffle in a way that Lodestone does not support",
    "Nothing; or see engines.md for what the engine has to be set to: Comet to native " +
      "shuffles, others to mode remote.")
  val EngineNotEncrypted = reason(
    "ENGINE_NOT_ENCRYPTED",
    "spark.io.encryption.enabled is on, and the engine does not encrypt its blocks",
    "Nothing, or encrypt the disks instead: the engine writes plain bytes in any case.")
  val FewBlocks = reason(
    "FEW_BLOCKS",
    "merging so few blocks saves no noticeable time (mode auto)",
    "Nothing, or set spark.lodestone.mode=merge to see it work.")
  val LargeBlocks = reason(
    "LARGE_BLOCKS",
    "the blocks are so large that merging them costs more than it saves (mode auto)",
    "Nothing, or set spark.lodestone.mode=merge.")
  val ServicesStrained =
    reason(
      "SERVICES_STRAINED",
      "every service is short of memory or disk space (mode auto)",
      "Give the services more of both, or start more services.")
  val NoService =
    reason(
      "NO_SERVICE",
      "no service was found, could be started or takes new shuffles",
      "If the report lists a service as unwilling, it is draining, or its disks are full " +
        "(reserve). Otherwise check spark.lodestone.services, or the executors' logs if none is " +
        "configured.")
  val ServiceRefused = reason(
    "SERVICE_REFUSED",
    "every service refused to register the shuffle",
    "Read the daemons' logs for the cause; often their disks are full.")
  val DriverUnreachable = reason(
    "DRIVER_UNREACHABLE",
    "the driver did not answer in time",
    "Look at the driver: garbage collection, or too many tasks for one driver.")
  val UnknownShuffle =
    reason(
      "UNKNOWN_SHUFFLE",
      "the driver does not know the shuffle, or has removed it",
      "Nothing: Spark removed the shuffle, or its outputs were lost and its maps are run " +
        "again.")
  val NothingPushed = reason(
    "NOTHING_PUSHED",
    "no map task pushed a block",
    "If blocks are large, nothing. Otherwise see the PUSH_ codes of the same shuffle.")

  // The shuffle is merged by fewer services, or for fewer maps, than possible.
  val ServiceLeftOut = reason(
    "SERVICE_LEFT_OUT",
    "a known service did not serve, or was slow, when the shuffle was planned",
    "Check whether that daemon runs, and check its disks and memory.")
  val PushNotAwaited =
    reason(
      "PUSH_NOT_AWAITED",
      "readers stopped waiting for map tasks that were still pushing",
      "Nothing if it is rare: the first readers use the originals of what came later. Raise " +
        "spark.lodestone.push.timeout if there are many.")

  // A remote shuffle is moved, or run again.
  val ReplicasMissing =
    reason(
      "REPLICAS_MISSING",
      "fewer services took part than the number of replicas",
      "Start more services, or set spark.lodestone.replicas=1.")
  val ReplicasInOneZone =
    reason(
      "REPLICAS_IN_ONE_ZONE",
      "one zone has both replicas of some partitions",
      "Start services in other zones, as many there as in the largest one. Counted where all " +
        "services of the shuffle have a --zone.")
  val RemoteMoved =
    reason(
      "REMOTE_MOVED",
      "the shuffle was moved from service to service too often",
      "Read the daemons' logs: disks are full, or daemons come and go. Executors keep the map " +
        "outputs that are written from then on.")
  val ReaderCutOff = reason(
    "READER_CUT_OFF",
    "a reader could not read map outputs that seem to exist; its task was run again",
    "Check the executor that the driver's log names: its network, firewalls between it and " +
      "that service, its direct memory. If the log says CHUNK_CHECKSUM_MISMATCH, its network " +
      "card or memory damages received data: take the host out of use. If it says CHUNK_BROKEN " +
      "or RECORDS_MISMATCH, its memory damages the data that it reads, or the map output was " +
      "bad before it was pushed; if another executor finds the same, the map output was bad.")
  val OutputLost = reason(
    "OUTPUT_LOST",
    "map outputs were not found where they were pushed; all maps were run again",
    "Find out why the daemon that held them ended, or set spark.lodestone.replicas=2.")

  // Blocks stay unmerged.
  val BlockTooLarge = reason(
    "BLOCK_TOO_LARGE",
    "the block is larger than the limit for merging",
    "Nothing: reading large blocks from the map output is efficient " +
      "(spark.lodestone.push.maxBlockSize).")
  val PushTooLate = reason(
    "PUSH_TOO_LATE",
    "the plan came too late for the readers, or the push after the shuffle was removed",
    "Nothing, if there are few. Otherwise look for services that are slow to register a " +
      "shuffle.")
  val PushAborted = reason(
    "PUSH_ABORTED",
    "Spark did not accept this attempt of the map task",
    "Nothing: speculation, or a task that was killed.")
  val PushStale = reason(
    "PUSH_STALE",
    "a newer generation of the shuffle exists",
    "Nothing: the stage was repeated.")
  val PushRestarted =
    reason(
      "PUSH_SERVICE_RESTARTED",
      "the service was restarted after the plan was made",
      "Find out why the daemon ended.")
  val PushUnknown = reason(
    "PUSH_UNKNOWN_SHUFFLE",
    "the service no longer knows the shuffle",
    "Nothing: the shuffle was over.")
  val PushDiskFull = reason(
    "PUSH_DISK_FULL",
    "the service has no disk space left",
    "Give the daemon's directories more space, or give it more directories.")
  val PushDiskFailed = reason(
    "PUSH_DISK_FAILED",
    "the service's disk failed",
    "Check the disk that the daemon's log names.")
  val PushOverloaded = reason(
    "PUSH_OVERLOADED",
    "the service is at its limit",
    "Give the daemon more --memory, or faster disks, or start more daemons.")
  val PushQuota =
    reason(
      "PUSH_QUOTA",
      "the application has its share of the service's memory",
      "Use fewer map tasks or partitions, or give the daemon more --memory, a higher --quota, " +
        "or a disk that takes data if it has none.")
  val PushConnection =
    reason(
      "PUSH_CONNECTION_FAILED",
      "the connection to the service failed or timed out",
      "Check whether the daemon runs, and check the network.")
  val PushCorrupt = reason(
    "PUSH_CHECKSUM_MISMATCH",
    "the block arrived damaged at the service",
    "Check memory and network of the two hosts: bytes changed on the way.")
  val PushQueueFull = reason(
    "PUSH_QUEUE_FULL",
    "pushes on this executor lag behind its map tasks",
    "Services or network are slower than the map tasks: add services.")
  val PushReadFailed =
    reason(
      "PUSH_READ_FAILED",
      "the map output could not be read back for pushing",
      "Check the executor's local disks.")
  val PushSkippedService =
    reason(
      "PUSH_SERVICE_SUSPECT",
      "the service failed recently and is avoided for now",
      "See the failure before it.")
  val PushDraining = reason(
    "PUSH_SERVICE_DRAINING",
    "the service is drained and takes nothing new",
    "Nothing: an operator takes the service away.")
  val PushServiceError = reason(
    "PUSH_SERVICE_ERROR",
    "the service failed while it handled the push; its log has details",
    "A bug: please report it with the daemon's log.")
  val LedgerMismatch =
    reason(
      "LEDGER_MISMATCH",
      "the service has other blocks of the map task than it acknowledged",
      "The daemon lost, doubled or mixed up blocks: please report it with its log.")
  val PushTooLarge =
    reason(
      "PUSH_TOO_LARGE",
      "a record is larger than the service takes in one request",
      "In the modes merge and auto nothing: readers use the original block. In mode remote the " +
        "map task, and later ones of the shuffle, keep their outputs; give the daemons more " +
        "--memory (a request may have 7/32 of it, and 64 MiB at most), or make the records " +
        "smaller (frames of Comet: spark.comet.batchSize).")
  val PushRefused = reason(
    "PUSH_REFUSED",
    "the service refused the push as invalid",
    "A bug, or versions that do not fit: the daemon's log names the field.")

  // The reader takes originals.
  val LocalMapRead =
    reason(
      "LOCAL_MAP_READ",
      "the task reads whole map outputs, in order, where they are",
      "Nothing: adaptive execution reads map outputs in place, in their order. Or a small part " +
        "of the merged data is missing, and all originals are on the task's own executor.")
  val LayoutFailed = reason(
    "LAYOUT_FAILED",
    "the service did not send its segment layouts",
    "Check whether the daemon runs. Layouts of another format than the reader's count as not " +
      "sent: the executor's log says it.")
  val FetchRestarted =
    reason(
      "FETCH_SERVICE_RESTARTED",
      "the service was restarted and lost its data",
      "Find out why the daemon ended.")
  val FetchSuspect =
    reason(
      "FETCH_SERVICE_SUSPECT",
      "the service failed recently and is avoided for now",
      "See the failure before it.")
  val FetchTimedOut = reason(
    "FETCH_TIMED_OUT",
    "the service did not answer a reader in time",
    "Check whether the daemon or its disks hang; failures.md has the times.")
  val FetchDiskFailed = reason(
    "FETCH_DISK_FAILED",
    "the service could not read its own data",
    "Check the disk that the daemon's log names.")
  val FetchOverloaded =
    reason(
      "FETCH_OVERLOADED",
      "the service is at its limit and did not serve a reader",
      "Give the daemon more --memory, or start more daemons.")
  val FetchDataGone = reason(
    "FETCH_UNKNOWN_SHUFFLE",
    "the service no longer knows the shuffle",
    "Nothing, if the application was silent for longer than its lease; otherwise see the " +
      "daemon's log.")
  val AttemptNotAccepted = reason(
    "ATTEMPT_NOT_ACCEPTED",
    "the merged block belongs to a map attempt that Spark did not accept",
    "Nothing: a map task was repeated, and its second output was not pushed.")
  val ChunkFetchFailed = reason(
    "CHUNK_FETCH_FAILED",
    "a chunk could not be fetched",
    "Read the daemon's log: the connection failed.")
  val ChunkCorrupt = reason(
    "CHUNK_CHECKSUM_MISMATCH",
    "a chunk arrived damaged",
    "Check the disk and memory of the daemon that the log names: bytes changed after they " +
      "were merged. If all damaged chunks arrived at one executor, check its memory and " +
      "network card.")
  val ChunkBroken = reason(
    "CHUNK_BROKEN",
    "a merged chunk could not be read; Spark ran the stage again, or in mode remote all maps",
    "The map output was bad before it was pushed, because its checksum was right: check the " +
      "executor that wrote it.")
  val RecordsMismatch = reason(
    "RECORDS_MISMATCH",
    "a merged chunk had another number of records than was written; Spark ran the stage " +
      "again, or in mode remote all maps",
    "The serializer returns another number of records than it was given, or there is a bug: " +
      "please report it.")
  val OriginalMismatch = reason(
    "ORIGINAL_MISMATCH",
    "a map output had damaged rows, another number of records than was written, or an unknown " +
      "one after merged data had proved wrong; its map was run again",
    "(Damage that a codec finds, or the checksum of encoded rows, is Spark's own fetch " +
      "failure, and is not counted.) As for RECORDS_MISMATCH. A single one may be due to a " +
      "disk or the memory of the executor that wrote it.")
  val RecordsUnchecked = reason(
    "RECORDS_UNCHECKED",
    "an original was read without a check, as its number of records is unknown",
    "Nothing: the shuffle has too many blocks, or the driver was too busy or had no room for " +
      "the numbers (failures.md).")

  // An engine beside Spark.
  val EngineShuffleOff = reason(
    "ENGINE_SHUFFLE_OFF",
    "an engine has no shuffles of its own with this shuffle manager; the driver's log has the " +
      "key to set",
    "Set spark.shuffle.manager to the manager for this engine: see engines.md.")

  val all: Seq[Reason] = defined.toList

  private val byCode: Map[String, Reason] = all.map(reason => reason.code -> reason).toMap

  def of(code: String): Option[Reason] = byCode.get(code)
}
