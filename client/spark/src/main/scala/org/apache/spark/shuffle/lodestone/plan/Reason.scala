// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

/**
 * The reason why Lodestone did less than it could have. Each decision has one code, the same in
 * logs, reports and metrics. Users read the sentence.
 */
private[spark] sealed abstract class Reason(val code: String, val sentence: String)
    extends Serializable {
  override def toString: String = code
}

private[spark] object Reason {

  // The shuffle is left to plain Spark.
  case object SerializerNotRelocatable
      extends Reason("SERIALIZER_NOT_RELOCATABLE", "the serializer cannot be concatenated")
  case object CodecNotConcatenable
      extends Reason("CODEC_NOT_CONCATENABLE", "the compression codec cannot be concatenated")
  case object BarrierStage extends Reason("BARRIER_STAGE", "barrier stages are not merged")
  case object IoEncryption
      extends Reason("IO_ENCRYPTION", "with IO encryption each block has its own key stream")
  case object Authentication extends Reason(
        "AUTHENTICATION",
        "spark.authenticate is on, which this version does not support")
  case object RpcEncryption extends Reason(
        "RPC_ENCRYPTION",
        "spark.ssl.rpc.enabled is on, which this version does not support")
  case object SingleMap
      extends Reason("SINGLE_MAP", "there is only one map task: merging needs several")
  case object SinglePartition
      extends Reason("SINGLE_PARTITION", "the shuffle has no partitions: there is nothing to merge")
  case object SparkPush
      extends Reason("SPARK_PUSH", "spark.shuffle.push.enabled is on, so Spark itself merges")
  case object CustomShuffleIo
      extends Reason("CUSTOM_SHUFFLE_IO", "a shuffle IO plugin keeps map outputs elsewhere")
  case object OldFetchProtocol extends Reason(
        "OLD_FETCH_PROTOCOL",
        "with spark.shuffle.useOldFetchProtocol map attempts have no ids of their own")
  case object FewBlocks
      extends Reason("FEW_BLOCKS", "merging so few blocks saves no noticeable time (mode auto)")
  case object LargeBlocks extends Reason(
        "LARGE_BLOCKS",
        "the blocks are so large that merging them costs more than it saves (mode auto)")
  case object ServicesStrained extends Reason(
        "SERVICES_STRAINED",
        "every service is short of memory or disk space (mode auto)")
  case object NoService extends Reason("NO_SERVICE", "no service was found or could be started")
  case object ServiceRefused
      extends Reason("SERVICE_REFUSED", "every service refused to register the shuffle")
  case object DriverUnreachable
      extends Reason("DRIVER_UNREACHABLE", "the driver did not answer in time")

  case object UnknownShuffle
      extends Reason("UNKNOWN_SHUFFLE", "the driver does not know the shuffle, or has removed it")
  case object NothingPushed extends Reason("NOTHING_PUSHED", "no map task pushed a block")

  // The shuffle is merged by fewer services, or for fewer maps, than possible.
  case object ServiceLeftOut extends Reason(
        "SERVICE_LEFT_OUT",
        "a known service did not serve, or was slow, when the shuffle was planned")
  case object PushNotAwaited extends Reason(
        "PUSH_NOT_AWAITED",
        "readers stopped waiting for map tasks that were still pushing")

  // A remote shuffle is moved, or run again.
  case object ReplicasMissing
      extends Reason("REPLICAS_MISSING", "fewer services took part than the number of replicas")
  case object RemoteMoved extends Reason(
        "REMOTE_MOVED",
        "the shuffle was moved from service to service too often")
  case object ReaderCutOff extends Reason(
        "READER_CUT_OFF",
        "a reader could not read map outputs that seem to exist; its task was run again")
  case object OutputLost extends Reason(
        "OUTPUT_LOST",
        "map outputs were not found where they were pushed; all maps were run again")

  // Blocks stay unmerged.
  case object BlockTooLarge
      extends Reason("BLOCK_TOO_LARGE", "the block is larger than the limit for merging")
  case object PushTooLate
      extends Reason(
        "PUSH_TOO_LATE",
        "the plan came too late for the readers, or the push after the shuffle was removed")
  case object PushAborted
      extends Reason("PUSH_ABORTED", "Spark did not accept this attempt of the map task")
  case object PushStale extends Reason("PUSH_STALE", "a newer generation of the shuffle exists")
  case object PushRestarted
      extends Reason("PUSH_SERVICE_RESTARTED", "the service was restarted after the plan was made")
  case object PushUnknown
      extends Reason("PUSH_UNKNOWN_SHUFFLE", "the service no longer knows the shuffle")
  case object PushDiskFull extends Reason("PUSH_DISK_FULL", "the service has no disk space left")
  case object PushDiskFailed extends Reason("PUSH_DISK_FAILED", "the service's disk failed")
  case object PushOverloaded extends Reason("PUSH_OVERLOADED", "the service is at its limit")
  case object PushConnection
      extends Reason("PUSH_CONNECTION_FAILED", "the connection to the service failed or timed out")
  case object PushCorrupt
      extends Reason("PUSH_CHECKSUM_MISMATCH", "the block arrived damaged at the service")
  case object PushQueueFull
      extends Reason("PUSH_QUEUE_FULL", "pushes on this executor lag behind its map tasks")
  case object PushReadFailed
      extends Reason("PUSH_READ_FAILED", "the map output could not be read back for pushing")
  case object PushSkippedService
      extends Reason("PUSH_SERVICE_SUSPECT", "the service failed recently and is avoided for now")
  case object PushDraining
      extends Reason("PUSH_SERVICE_DRAINING", "the service is drained and takes nothing new")
  case object PushServiceError extends Reason(
        "PUSH_SERVICE_ERROR",
        "the service failed while it handled the push; its log has details")
  case object LedgerMismatch extends Reason(
        "LEDGER_MISMATCH",
        "the service has other blocks of the map task than it acknowledged")
  case object PushRefused
      extends Reason("PUSH_REFUSED", "the service refused the push as invalid")

  // The reader takes originals.
  case object LocalMapRead
      extends Reason("LOCAL_MAP_READ", "the task reads whole map outputs, in order, where they are")
  case object LayoutFailed
      extends Reason("LAYOUT_FAILED", "the service did not send its segment layouts")
  case object FetchRestarted
      extends Reason("FETCH_SERVICE_RESTARTED", "the service was restarted and lost its data")
  case object FetchSuspect
      extends Reason("FETCH_SERVICE_SUSPECT", "the service failed recently and is avoided for now")
  case object FetchTimedOut
      extends Reason("FETCH_TIMED_OUT", "the service did not answer a reader in time")
  case object FetchDiskFailed
      extends Reason("FETCH_DISK_FAILED", "the service could not read its own data")
  case object FetchOverloaded
      extends Reason("FETCH_OVERLOADED", "the service is at its limit and did not serve a reader")
  case object FetchDataGone
      extends Reason("FETCH_UNKNOWN_SHUFFLE", "the service no longer knows the shuffle")
  case object AttemptNotAccepted extends Reason(
        "ATTEMPT_NOT_ACCEPTED",
        "the merged block belongs to a map attempt that Spark did not accept")
  case object ChunkFetchFailed
      extends Reason("CHUNK_FETCH_FAILED", "a chunk could not be fetched")
  case object ChunkCorrupt
      extends Reason("CHUNK_CHECKSUM_MISMATCH", "a chunk arrived damaged")
  case object ChunkBroken extends Reason(
        "CHUNK_BROKEN",
        "a merged chunk could not be read; Spark ran the stage again, or in mode remote all maps")
  case object RecordsMismatch extends Reason(
        "RECORDS_MISMATCH",
        "a merged chunk had another number of records than was written; Spark ran the stage " +
          "again, or in mode remote all maps")
  case object OriginalMismatch extends Reason(
        "ORIGINAL_MISMATCH",
        "a map output had another number of records than was written; its map was run again")
  case object RecordsUnchecked extends Reason(
        "RECORDS_UNCHECKED",
        "an original was read without a check, as its number of records is unknown")

  /** Every reason, in the order of the report. */
  val all: Seq[Reason] = Seq(
    SerializerNotRelocatable,
    CodecNotConcatenable,
    BarrierStage,
    IoEncryption,
    Authentication,
    RpcEncryption,
    SingleMap,
    SinglePartition,
    SparkPush,
    CustomShuffleIo,
    OldFetchProtocol,
    FewBlocks,
    LargeBlocks,
    ServicesStrained,
    NoService,
    ServiceRefused,
    DriverUnreachable,
    UnknownShuffle,
    NothingPushed,
    ServiceLeftOut,
    PushNotAwaited,
    ReplicasMissing,
    RemoteMoved,
    ReaderCutOff,
    OutputLost,
    BlockTooLarge,
    PushTooLate,
    PushAborted,
    PushStale,
    PushRestarted,
    PushUnknown,
    PushDiskFull,
    PushDiskFailed,
    PushOverloaded,
    PushConnection,
    PushCorrupt,
    PushQueueFull,
    PushReadFailed,
    PushSkippedService,
    PushDraining,
    PushServiceError,
    LedgerMismatch,
    PushRefused,
    LocalMapRead,
    LayoutFailed,
    FetchRestarted,
    FetchSuspect,
    FetchTimedOut,
    FetchDiskFailed,
    FetchOverloaded,
    FetchDataGone,
    AttemptNotAccepted,
    ChunkFetchFailed,
    ChunkCorrupt,
    ChunkBroken,
    RecordsMismatch,
    OriginalMismatch,
    RecordsUnchecked)

  private val byCode: Map[String, Reason] = all.map(reason => reason.code -> reason).toMap

  def of(code: String): Option[Reason] = byCode.get(code)
}
