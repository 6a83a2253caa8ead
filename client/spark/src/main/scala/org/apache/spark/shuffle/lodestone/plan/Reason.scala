// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import scala.collection.mutable.ArrayBuffer

/**
 * The reason why Lodestone did less than it could have. Each decision has one code, the same in
 * logs, reports and metrics. Users read the sentence.
 */
private[spark] final case class Reason private (code: String, sentence: String) {
  override def toString: String = code
}

private[spark] object Reason {
  private val defined = ArrayBuffer.empty[Reason]

  private def reason(code: String, sentence: String): Reason = {
    val made = new Reason(code, sentence)
    defined += made
    made
  }

  // The shuffle is left to plain Spark.
  val SerializerNotRelocatable =
    reason("SERIALIZER_NOT_RELOCATABLE", "the serializer cannot be concatenated")
  val CodecNotConcatenable =
    reason("CODEC_NOT_CONCATENABLE", "the compression codec cannot be concatenated")
  val BarrierStage = reason("BARRIER_STAGE", "barrier stages are not merged")
  val CipherUnknown =
    reason("CIPHER_UNKNOWN", "Spark encrypts with SASL or an unknown cipher, which services do not")
  val SecretNotShared = reason(
    "SECRET_NOT_SHARED",
    "Spark makes a secret for each application here, which the named services cannot know")
  val RpcEncryption =
    reason("RPC_ENCRYPTION", "spark.ssl.rpc.enabled is on, and its certificate is not in PEM files")
  val SingleMap = reason("SINGLE_MAP", "there is only one map task: merging needs several")
  val NoPartitions =
    reason("NO_PARTITIONS", "the shuffle has no partitions: there is nothing to merge")
  val SparkPush = reason("SPARK_PUSH", "spark.shuffle.push.enabled is on, so Spark itself merges")
  val CustomShuffleIo =
    reason("CUSTOM_SHUFFLE_IO", "a shuffle IO plugin keeps map outputs elsewhere")
  val OldFetchProtocol = reason(
    "OLD_FETCH_PROTOCOL",
    "with spark.shuffle.useOldFetchProtocol map attempts have no ids of their own")
  val EngineShuffle = reason(
    "ENGINE_SHUFFLE",
    "the engine writes this kind of shuffle in a way that Lodestone does not support")
  val EngineNotEncrypted = reason(
    "ENGINE_NOT_ENCRYPTED",
    "spark.io.encryption.enabled is on, and the engine does not encrypt its blocks")
  val FewBlocks = reason("FEW_BLOCKS", "merging so few blocks saves no noticeable time (mode auto)")
  val LargeBlocks = reason(
    "LARGE_BLOCKS",
    "the blocks are so large that merging them costs more than it saves (mode auto)")
  val ServicesStrained =
    reason("SERVICES_STRAINED", "every service is short of memory or disk space (mode auto)")
  val NoService =
    reason("NO_SERVICE", "no service was found, could be started or takes new shuffles")
  val ServiceRefused = reason("SERVICE_REFUSED", "every service refused to register the shuffle")
  val DriverUnreachable = reason("DRIVER_UNREACHABLE", "the driver did not answer in time")
  val UnknownShuffle =
    reason("UNKNOWN_SHUFFLE", "the driver does not know the shuffle, or has removed it")
  val NothingPushed = reason("NOTHING_PUSHED", "no map task pushed a block")

  // The shuffle is merged by fewer services, or for fewer maps, than possible.
  val ServiceLeftOut = reason(
    "SERVICE_LEFT_OUT",
    "a known service did not serve, or was slow, when the shuffle was planned")
  val PushNotAwaited =
    reason("PUSH_NOT_AWAITED", "readers stopped waiting for map tasks that were still pushing")

  // A remote shuffle is moved, or run again.
  val ReplicasMissing =
    reason("REPLICAS_MISSING", "fewer services took part than the number of replicas")
  val ReplicasInOneZone =
    reason("REPLICAS_IN_ONE_ZONE", "one zone has both replicas of some partitions")
  val RemoteMoved =
    reason("REMOTE_MOVED", "the shuffle was moved from service to service too often")
  val ReaderCutOff = reason(
    "READER_CUT_OFF",
    "a reader could not read map outputs that seem to exist; its task was run again")
  val OutputLost = reason(
    "OUTPUT_LOST",
    "map outputs were not found where they were pushed; all maps were run again")

  // Blocks stay unmerged.
  val BlockTooLarge = reason("BLOCK_TOO_LARGE", "the block is larger than the limit for merging")
  val PushTooLate = reason(
    "PUSH_TOO_LATE",
    "the plan came too late for the readers, or the push after the shuffle was removed")
  val PushAborted = reason("PUSH_ABORTED", "Spark did not accept this attempt of the map task")
  val PushStale = reason("PUSH_STALE", "a newer generation of the shuffle exists")
  val PushRestarted =
    reason("PUSH_SERVICE_RESTARTED", "the service was restarted after the plan was made")
  val PushUnknown = reason("PUSH_UNKNOWN_SHUFFLE", "the service no longer knows the shuffle")
  val PushDiskFull = reason("PUSH_DISK_FULL", "the service has no disk space left")
  val PushDiskFailed = reason("PUSH_DISK_FAILED", "the service's disk failed")
  val PushOverloaded = reason("PUSH_OVERLOADED", "the service is at its limit")
  val PushQuota =
    reason("PUSH_QUOTA", "the application has its share of the service's memory")
  val PushConnection =
    reason("PUSH_CONNECTION_FAILED", "the connection to the service failed or timed out")
  val PushCorrupt = reason("PUSH_CHECKSUM_MISMATCH", "the block arrived damaged at the service")
  val PushQueueFull = reason("PUSH_QUEUE_FULL", "pushes on this executor lag behind its map tasks")
  val PushReadFailed =
    reason("PUSH_READ_FAILED", "the map output could not be read back for pushing")
  val PushSkippedService =
    reason("PUSH_SERVICE_SUSPECT", "the service failed recently and is avoided for now")
  val PushDraining = reason("PUSH_SERVICE_DRAINING", "the service is drained and takes nothing new")
  val PushServiceError = reason(
    "PUSH_SERVICE_ERROR",
    "the service failed while it handled the push; its log has details")
  val LedgerMismatch =
    reason("LEDGER_MISMATCH", "the service has other blocks of the map task than it acknowledged")
  val PushTooLarge =
    reason("PUSH_TOO_LARGE", "a record is larger than the service takes in one request")
  val PushRefused = reason("PUSH_REFUSED", "the service refused the push as invalid")

  // The reader takes originals.
  val LocalMapRead =
    reason("LOCAL_MAP_READ", "the task reads whole map outputs, in order, where they are")
  val LayoutFailed = reason("LAYOUT_FAILED", "the service did not send its segment layouts")
  val FetchRestarted =
    reason("FETCH_SERVICE_RESTARTED", "the service was restarted and lost its data")
  val FetchSuspect =
    reason("FETCH_SERVICE_SUSPECT", "the service failed recently and is avoided for now")
  val FetchTimedOut = reason("FETCH_TIMED_OUT", "the service did not answer a reader in time")
  val FetchDiskFailed = reason("FETCH_DISK_FAILED", "the service could not read its own data")
  val FetchOverloaded =
    reason("FETCH_OVERLOADED", "the service is at its limit and did not serve a reader")
  val FetchDataGone = reason("FETCH_UNKNOWN_SHUFFLE", "the service no longer knows the shuffle")
  val AttemptNotAccepted = reason(
    "ATTEMPT_NOT_ACCEPTED",
    "the merged block belongs to a map attempt that Spark did not accept")
  val ChunkFetchFailed = reason("CHUNK_FETCH_FAILED", "a chunk could not be fetched")
  val ChunkCorrupt = reason("CHUNK_CHECKSUM_MISMATCH", "a chunk arrived damaged")
  val ChunkBroken = reason(
    "CHUNK_BROKEN",
    "a merged chunk could not be read; Spark ran the stage again, or in mode remote all maps")
  val RecordsMismatch = reason(
    "RECORDS_MISMATCH",
    "a merged chunk had another number of records than was written; Spark ran the stage " +
      "again, or in mode remote all maps")
  val OriginalMismatch = reason(
    "ORIGINAL_MISMATCH",
    "a map output had damaged rows, another number of records than was written, or an unknown " +
      "one after merged data had proved wrong; its map was run again")
  val RecordsUnchecked = reason(
    "RECORDS_UNCHECKED",
    "an original was read without a check, as its number of records is unknown")

  // An engine beside Spark.
  val EngineShuffleOff = reason(
    "ENGINE_SHUFFLE_OFF",
    "an engine has no shuffles of its own with this shuffle manager; the driver's log has the " +
      "key to set")

  val all: Seq[Reason] = defined.toList

  private val byCode: Map[String, Reason] = all.map(reason => reason.code -> reason).toMap

  def of(code: String): Option[Reason] = byCode.get(code)
}
