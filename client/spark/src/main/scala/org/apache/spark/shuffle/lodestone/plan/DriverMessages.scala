// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.apache.spark.shuffle.lodestone.plan.counts.PackedLongs

/** What executors and the driver endpoint say to each other over Spark's RPC. */
private[spark] sealed trait DriverMessage extends Serializable

private[lodestone] object DriverMessage {

  /** The name by which executors find the driver's endpoint. */
  val Endpoint = "lodestone"
}

/** One generation of one shuffle: `dep.shuffleId`, `dep.shuffleMergeId`. */
private[spark] final case class ShuffleGeneration(shuffleId: Int, number: Int) {
  override def toString: String = s"shuffle $shuffleId (generation $number)"
}

/** One-way: the service that serves this executor's host in embedded mode. */
private[spark] final case class ServiceFound(executorId: String, host: String, hostPort: String)
    extends DriverMessage

/** One-way: no service could be found or started on this executor's host, and why. */
private[spark] final case class ServiceMissing(executorId: String, host: String, why: String)
    extends DriverMessage

/**
 * What one executor has seen of a shuffle's map outputs so far: `blocks` that are not empty, and
 * their bytes. `diskReadMicros`: what a small read at random from its local disk takes, -1 unknown.
 */
private[spark] final case class MapSample(
    maps: Int,
    blocks: Long,
    bytes: Long,
    diskReadMicros: Long)
    extends Serializable {

  /** With one more map output, of these lengths. */
  def and(lengths: Array[Long]): MapSample =
    copy(maps = maps + 1, blocks = blocks + lengths.count(_ > 0), bytes = bytes + lengths.sum)

  /** What so many maps have, if they are like these. */
  def bytesOf(numMaps: Int): Long = if (maps == 0) 0 else bytes / maps * numMaps
}

private[lodestone] object MapSample {

  /** A disk with slower reads is slow: ten times a solid disk's, less than half of a seek. */
  val SlowMicros = 2000L
}

/**
 * Ask: where do the map tasks of this shuffle push? Answer: [[PlanAnswer]].
 *
 * @param shuffleMergeId
 *   Spark's `shuffleMergeId`: a higher one than before says that all maps are run again
 * @param sample
 *   map outputs of an executor that keeps them; the driver decides by them whether merging gains
 * @param trouble
 *   why the plan that the executor has is of no use any more
 */
private[spark] final case class GetPlan(
    shuffleId: Int,
    shuffleMergeId: Int,
    sample: Option[MapSample] = None,
    trouble: Option[ServiceTrouble] = None)
    extends DriverMessage

/**
 * Ask: where are map outputs read from? Answer: [[PlanAnswer]]. If executors keep the outputs, it
 * comes when all pushes are over, or after `spark.lodestone.push.timeout`.
 */
private[spark] final case class GetReadPlan(shuffleId: Int, generation: Int) extends DriverMessage

/** One-way: all pushes of one map attempt are over, successful or not. */
private[spark] final case class MapPushed(
    generation: ShuffleGeneration,
    mapIndex: Int,
    mapId: Long,
    counts: PushCounts)
    extends DriverMessage

/**
 * Ask (true = noted): merged data proved wrong in the middle of a read; later attempts must take
 * originals, of the whole shuffle: a stage has few attempts, and a wrong partition seldom is alone.
 */
private[spark] final case class DistrustMerged(
    generation: ShuffleGeneration,
    reduceId: Int,
    code: String)
    extends DriverMessage

/** One-way: what one reduce task read. */
private[spark] final case class TaskRead(generation: ShuffleGeneration, counts: ReadCounts)
    extends DriverMessage

/**
 * One-way: how many records a map attempt has written for each partition. It is sent by the task, once
 * its output is committed: when a reader runs, the driver knows it.
 */
private[spark] final case class MapCounted(
    shuffleId: Int,
    mapIndex: Int,
    mapId: Long,
    records: PackedLongs)
    extends DriverMessage

/** Ask: how many records have these maps written for these partitions? Answer: [[CountedMaps]]. */
private[spark] final case class GetCounts(
    shuffleId: Int,
    startMapIndex: Int,
    endMapIndex: Int,
    startPartition: Int,
    endPartition: Int)
    extends DriverMessage

/**
 * What map attempts, whether Spark accepted them or not, told of the partitions from `startPartition` to
 * before `endPartition`: `records` has a row for each of `mapIds`.
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

  /** Of a row, from one partition to before another one, which are all here. */
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

/** A service takes nothing more of an executor that knew the shuffle's plan so far; `code`: why. */
private[spark] final case class ServiceTrouble(
    generation: Int,
    version: Int,
    service: ServiceLocation,
    code: String)
    extends Serializable

/**
 * Ask: a task of this executor cannot read map outputs of this generation, because of these services. Answer:
 * true if they are lost, and were forgotten before it came; false if they are where they were, as far as
 * the driver can tell, so that another executor may be able to read them.
 *
 * @param taskId
 *   Spark's of the task attempt, which the driver has killed where the outputs are there
 * @param missing
 *   a block that these services do not show, though they show others
 * @param damaged
 *   a segment that came from them with other bytes than the map tasks wrote
 * @param isOfBarrier
 *   its stage is a barrier stage, all tasks of which are run again with it
 */
private[spark] final case class OutputsLost(
    shuffleId: Int,
    generation: Int,
    services: Seq[ServiceLocation],
    code: String,
    executorId: String,
    taskId: Long,
    reduceId: Int,
    missing: Option[MissingBlock] = None,
    damaged: Option[DamagedSegment] = None,
    isOfBarrier: Boolean = false)
    extends DriverMessage

/** One block of a map attempt that Spark accepted. */
private[spark] final case class MissingBlock(mapIndex: Int, mapId: Long, reduceId: Int)

/** What the driver answers to [[GetPlan]] and [[GetReadPlan]]. */
private[spark] sealed trait PlanAnswer extends DriverMessage

/**
 * There is no plan. `code` is a [[org.apache.spark.shuffle.lodestone.Reason]].
 *
 * @param forNow
 *   other map outputs may show that merging gains: ask again when more are known
 */
private[spark] final case class NoPlan(code: String, forNow: Boolean = false) extends PlanAnswer {
  def reason: Option[Reason] = Reason.of(code)
}

private[spark] object NoPlan {
  def apply(reason: Reason): NoPlan = NoPlan(reason.code)
}

/**
 * Where a shuffle is pushed to, and read from. `versions` grows when a service can take no more; `generation`,
 * which services know as the merge id, when all maps are run again. In each version a partition belongs
 * to as many neighbours in the list as there are `replicas`.
 *
 * @param maxBlockBytes
 *   blocks above this size are not pushed, if executors keep the map outputs
 * @param distrusted
 *   merged data proved wrong, for the reason with this code: originals are read, and services are asked
 *   for nothing but the numbers of records, by which the originals are checked
 */
private[spark] final case class ShufflePlan(
    generation: Int,
    numPartitions: Int,
    replicas: Int,
    versions: Array[Array[ServiceLocation]],
    maxBlockBytes: Long = Int.MaxValue,
    distrusted: Option[String] = None)
    extends PlanAnswer {

  /** Services of the version that is pushed to. */
  def services: Array[ServiceLocation] = versions.last

  /** The version that is pushed to. */
  def newest: Int = versions.length - 1

  @transient private lazy val allStripes: Array[Stripes] =
    versions.map(services => new Stripes(services.length, numPartitions))

  def stripes(version: Int): Stripes = allStripes(version)

  /** Partitions of one group belong to the same services: the index of its first one. */
  def groupOf(version: Int, reduceId: Int): Int = stripes(version).groupOf(reduceId)

  /** Indexes into the version's services. */
  def indexesOf(version: Int, group: Int): Seq[Int] = {
    val count = versions(version).length
    (0 until math.min(replicas, count)).map(i => (group + i) % count)
  }

  def servicesOf(version: Int, group: Int): Seq[ServiceLocation] =
    indexesOf(version, group).map(versions(version)(_))

  /** All that may have something of the partition, by whichever version it was pushed. */
  def servicesOf(reduceId: Int): Seq[ServiceLocation] =
    versions.indices.flatMap(version => servicesOf(version, groupOf(version, reduceId))).distinct
}
