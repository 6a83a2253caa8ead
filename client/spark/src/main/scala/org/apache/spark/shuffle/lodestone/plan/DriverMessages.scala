// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.plan.counts.PackedLongs
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, WantedChunk}

/** A message between executors and the driver endpoint, over Spark's RPC. */
private[spark] sealed trait DriverMessage extends Serializable

/** A message that the driver answers with an `A`. */
private[spark] sealed trait Question[A] extends DriverMessage

private[lodestone] object DriverMessage {
  val Endpoint = "lodestone"
}

/** One generation of one shuffle. In the modes merge and auto `number` is `dep.shuffleMergeId`. */
private[spark] final case class ShuffleGeneration(shuffleId: Int, number: Int) {
  override def toString: String = s"shuffle $shuffleId (generation $number)"
}

/** One-way: the service that serves this executor's host in embedded mode. */
private[spark] final case class ServiceFound(executorId: String, host: String, address: HostPort)
    extends DriverMessage

/** One-way: no service was found or could be started on this executor's host. */
private[spark] final case class ServiceMissing(executorId: String, host: String, cause: String)
    extends DriverMessage

/**
 * The map outputs of a shuffle on one executor so far: `blocks` that are not empty, and their
 * bytes. `diskReadMicros` is the time of a small random read of its local disk, or -1 if unknown.
 */
private[spark] final case class MapSample(
    maps: Int,
    blocks: Long,
    bytes: Long,
    diskReadMicros: Long)
    extends Serializable {
  def and(lengths: Array[Long]): MapSample =
    copy(maps = maps + 1, blocks = blocks + lengths.count(_ > 0), bytes = bytes + lengths.sum)

  def bytesOf(numMaps: Int): Long = if (maps == 0) 0 else bytes / maps * numMaps
}

private[lodestone] object MapSample {

  /**
   * A disk with slower reads counts as slow: ten times the read time of a solid disk, less than
   * half of a seek.
   */
  val SlowMicros = 2000L
}

/**
 * Asks where the map tasks of this shuffle push.
 *
 * @param shuffleMergeId
 *   Spark's number: it grows when Spark runs all maps again
 * @param sample
 *   map outputs of an executor that keeps them; by them the driver decides whether merging gains
 * @param trouble
 *   the reason why the executor cannot use its plan any more
 */
private[spark] final case class GetPlan(
    shuffleId: Int,
    shuffleMergeId: Int,
    sample: Option[MapSample] = None,
    trouble: Option[ServiceTrouble] = None)
    extends Question[PlanAnswer]

/**
 * Asks where readers find map outputs. If executors keep the outputs, the answer comes when all
 * pushes are over, or after `spark.lodestone.push.timeout`.
 */
private[spark] final case class GetReadPlan(shuffleId: Int, generation: Int)
    extends Question[PlanAnswer]

/** One-way: all pushes of one map attempt are over, successful or not. */
private[spark] final case class MapPushed(
    generation: ShuffleGeneration,
    mapIndex: Int,
    mapId: Long,
    counts: PushCounts)
    extends DriverMessage

/**
 * Reports that merged data proved wrong in the middle of a read. Then later attempts take the
 * originals of the whole shuffle: a stage has few attempts, and a wrong partition is seldom alone.
 * The answer is true if the driver recorded it.
 */
private[spark] final case class DistrustMerged(
    generation: ShuffleGeneration,
    reduceId: Int,
    found: Distrust)
    extends Question[Boolean]

/**
 * The reason why readers take originals.
 *
 * @param taskId
 *   the id of the reader that found it. Maps with smaller ids began before it, as Spark's ids grow
 */
private[spark] final case class Distrust(reason: Reason, taskId: Long)

/**
 * Reports that a reader may have to read an original that is as wrong as merged data proved. The
 * answer is true if Spark has forgotten the outputs of all maps with ids below `taskId`.
 */
private[spark] final case class OutputsSuspected(generation: ShuffleGeneration, taskId: Long)
    extends Question[Boolean]

/** One-way: what one reduce task read. */
private[spark] final case class TaskRead(generation: ShuffleGeneration, counts: ReadCounts)
    extends DriverMessage

/**
 * One-way: the numbers of records that a map attempt wrote, by partition. The task sends it after
 * its output is committed, so the driver has it before a reader runs.
 */
private[spark] final case class MapCounted(
    shuffleId: Int,
    mapIndex: Int,
    mapId: Long,
    records: PackedLongs)
    extends DriverMessage

/**
 * One-way: the bytes of a map attempt whose output is written, if its rows are encoded.
 *
 * @param length
 *   the sum over its blocks, as they are pushed
 * @param size
 *   the sum over its blocks, as Spark sees them
 */
private[spark] final case class MapEncoded(
    shuffleId: Int,
    bytes: EncodedBytes,
    length: Long,
    size: Long)
    extends DriverMessage

/**
 * What became of rows.
 *
 * @param rows
 *   with their sizes, as Spark's serializer writes them
 * @param encoded
 *   before compression
 * @param compressed
 *   as they are written, with the heads of row groups
 */
private[spark] final case class EncodedBytes(rows: Long, encoded: Long, compressed: Long)
    extends Serializable

/** Asks for the numbers of records of these maps and partitions. */
private[spark] final case class GetCounts(
    shuffleId: Int,
    startMapIndex: Int,
    endMapIndex: Int,
    startPartition: Int,
    endPartition: Int)
    extends Question[CountedMaps]

/**
 * The numbers of records that map attempts reported for the partitions from `startPartition` to
 * before `endPartition`: `records` has a row for each of `mapIds`. Spark may have accepted an
 * attempt or not.
 *
 * @param nextMapIndex
 *   the map from which to ask again, if this is not all
 */
private[spark] final case class CountedMaps(
    nextMapIndex: Int,
    startPartition: Int,
    endPartition: Int,
    mapIds: PackedLongs,
    records: PackedLongs)
    extends DriverMessage {

  /**
   * Returns the sum over the partitions from `from` to before `until`, which must be in the row.
   */
  def in(row: Int, from: Int, until: Int): Long = {
    val rowStart = row * (endPartition - startPartition)
    var sum = 0L
    var partition = from
    while (partition < until) {
      sum += records(rowStart + partition - startPartition)
      partition += 1
    }
    sum
  }
}

private[spark] object CountedMaps {
  val NoMore: Int = -1

  val Nothing: CountedMaps = {
    val none = PackedLongs(Array.emptyLongArray)
    CountedMaps(NoMore, 0, 0, none, none)
  }
}

/** Sums over one map attempt. `unpushed` counts blocks by reason code. */
private[spark] final case class PushCounts(
    blocks: Long,
    bytes: Long,
    requests: Long,
    unpushed: Map[String, Long])

/**
 * Sums over one reduce task. `fallbacks` counts original blocks or chunks by reason code;
 * `localChunkBytes` came from services of the reader's own host.
 */
private[spark] final case class ReadCounts(
    chunks: Long,
    chunkBytes: Long,
    localChunkBytes: Long,
    mergedBlocks: Long,
    originals: Long,
    fallbacks: Map[String, Long])

/** A service takes no more data from an executor that knows this version of the plan. */
private[spark] final case class ServiceTrouble(
    generation: Int,
    version: Int,
    service: ServiceLocation,
    reason: Reason)
    extends Serializable

/**
 * Services that do not have what was pushed to them, as a task found.
 *
 * @param missing
 *   a block that these services do not show, though they show others
 * @param damaged
 *   a segment that came from them with other bytes than the map tasks wrote, or did not come
 * @param unread
 *   the chunk with that segment, if the service refused to send it
 */
private[spark] final case class LostAt(
    services: Seq[ServiceLocation],
    reason: Reason,
    missing: Option[MissingBlock] = None,
    damaged: Option[DamagedSegment] = None,
    unread: Option[UnreadChunk] = None)
    extends Serializable

/**
 * Reports that a task of this executor cannot read map outputs of this generation. The answer is
 * true if the outputs are lost; Spark has forgotten them then. It is false if the driver finds
 * them, so that another executor may be able to read them.
 *
 * @param taskId
 *   Spark's id of the task attempt, which the driver kills if the outputs exist
 * @param isOfBarrier
 *   true for a barrier stage, of which Spark runs all tasks again
 */
private[spark] final case class OutputsLost(
    shuffleId: Int,
    generation: Int,
    lost: LostAt,
    executorId: String,
    taskId: Long,
    reduceId: Int,
    isOfBarrier: Boolean = false)
    extends Question[Boolean]

/** One block of a map attempt that Spark accepted. */
private[spark] final case class MissingBlock(mapIndex: Int, mapId: Long, reduceId: Int)

/** A chunk that one service refused to send: its runs are slots of that service. */
private[spark] final case class UnreadChunk(wanted: WantedChunk, sizeBytes: Long)

/** The answer to [[GetPlan]] and [[GetReadPlan]]. */
private[spark] sealed trait PlanAnswer extends DriverMessage

/**
 * There is no plan.
 *
 * @param forNow
 *   other map outputs may show that merging gains: ask again when more are known
 */
private[spark] final case class NoPlan(reason: Reason, forNow: Boolean = false) extends PlanAnswer

/**
 * The services of one generation of a shuffle. `versions` grows when a service can take no more. In
 * each version a partition belongs to as many neighbours in the list as there are `replicas`.
 *
 * @param maxBlockBytes
 *   blocks above this size are not pushed, if executors keep the map outputs
 * @param distrusted
 *   the reason why merged data proved wrong: readers take originals, and ask services only for
 *   numbers of records, to check the originals
 * @param hasLongStripes
 *   true if reduce tasks run where their partitions are
 */
private[spark] final case class ShufflePlan(
    generation: Int,
    numPartitions: Int,
    replicas: Int,
    versions: Array[Array[ServiceLocation]],
    maxBlockBytes: Long = Int.MaxValue,
    distrusted: Option[Distrust] = None,
    hasLongStripes: Boolean = false)
    extends PlanAnswer {

  /** The services of the newest version, to which map tasks push. */
  def services: Array[ServiceLocation] = versions.last

  def newest: Int = versions.length - 1

  @transient private lazy val allStripes: Array[Stripes] =
    versions.map(services => new Stripes(services.length, numPartitions, hasLongStripes))

  def stripes(version: Int): Stripes = allStripes(version)

  /** The group of a partition: the index of the first service of its partitions. */
  def groupOf(version: Int, reduceId: Int): Int = stripes(version).groupOf(reduceId)

  def indexesOf(version: Int, group: Int): Seq[Int] = {
    val count = versions(version).length
    (0 until math.min(replicas, count)).map(i => (group + i) % count)
  }

  def servicesOf(version: Int, group: Int): Seq[ServiceLocation] =
    indexesOf(version, group).map(versions(version)(_))

  /** Every service that may have segments of the partition, in any version. */
  def servicesOf(reduceId: Int): Seq[ServiceLocation] =
    versions.indices.flatMap(version => servicesOf(version, groupOf(version, reduceId))).distinct
}

/** The name of a segment, without the rest of the layout, which may be damaged too. */
private[spark] final case class DamagedSegment(
    reduceId: Int,
    mapIndex: Int,
    mapId: Long,
    sequence: Int) {

  def names(laid: LaidSegment): Boolean =
    laid.mapIndex == mapIndex && laid.mapId == mapId && laid.sequence == sequence
}

private[spark] object DamagedSegment {
  def of(reduceId: Int, laid: LaidSegment): DamagedSegment =
    DamagedSegment(reduceId, laid.mapIndex, laid.mapId, laid.sequence)
}

/** A service: the address of a daemon and its incarnation. */
private[spark] final case class ServiceLocation(host: String, port: Int, incarnation: Long) {
  def address: HostPort = HostPort(host, port)
  def hostPort: String = address.toString
}
