// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import java.util.Locale

import scala.collection.concurrent.TrieMap
import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.plan._

private[driver] final class ShuffleRecord(
    val shuffleId: Int,
    val numMaps: Int,
    val numPartitions: Int,
    val format: BlockFormat = BlockFormat.SparkStream) {
  var generation: Int = 0
  var state: ShuffleRecord.State = ShuffleRecord.Registered
  var services: Int = 0

  /** The time that merging adds between the map stage and the reduce stage. */
  var readersWaitedMs: Long = 0
  val counts = new ReportCounts

  /** The sample of the last decision whether to merge. */
  var sample: Option[MapSample] = None

  /** The limits that the sample was compared with. None in mode merge. */
  var limits: Option[MergeLimits] = None
  var generationBlocks: Long = 0

  def began(newGeneration: Int): Unit = {
    generation = newGeneration
    sample = None
    limits = None
    services = 0
    readersWaitedMs = 0
    generationBlocks = 0
  }
}

private[driver] object ShuffleRecord {
  sealed abstract class State(val name: String)
  case object Registered extends State("registered")
  case object Merged extends State("merged")
  case object Plain extends State("plain")
  case object Remote extends State("remote")
}

/** Sums of the reports of tasks. Only the event loop changes them; metrics read them too. */
private[driver] final class ReportCounts {
  @volatile var blocksPushed = 0L
  @volatile var bytesPushed = 0L
  @volatile var pushRequests = 0L
  @volatile var chunksRead = 0L
  @volatile var chunkBytes = 0L
  @volatile var localChunkBytes = 0L
  @volatile var mergedBlocksRead = 0L
  @volatile var originalsRead = 0L
  @volatile var rowBytes = 0L
  @volatile var encodedBytes = 0L
  @volatile var compressedBytes = 0L

  /** Counts by the codes of [[Reason]]. Other codes are counted together. */
  val reasons = TrieMap.empty[String, Long]

  def reasonsInOrder: Seq[(String, Long)] = reasons.toSeq.sorted

  /** The sums by their names in the report and in Spark's metrics. */
  def numbers: Seq[(String, Long)] = Seq(
    "blocksPushed" -> blocksPushed,
    "bytesPushed" -> bytesPushed,
    "pushRequests" -> pushRequests,
    "chunksRead" -> chunksRead,
    "chunkBytes" -> chunkBytes,
    "localChunkBytes" -> localChunkBytes,
    "mergedBlocksRead" -> mergedBlocksRead,
    "originalsRead" -> originalsRead,
    "rowBytes" -> rowBytes,
    "encodedBytes" -> encodedBytes,
    "compressedBytes" -> compressedBytes)

  def add(counts: PushCounts): Unit = {
    blocksPushed += counts.blocks
    bytesPushed += counts.bytes
    pushRequests += counts.requests
    counts.unpushed.foreach { case (code, count) => addReason(code, count) }
  }

  def add(counts: ReadCounts): Unit = {
    chunksRead += counts.chunks
    chunkBytes += counts.chunkBytes
    localChunkBytes += counts.localChunkBytes
    mergedBlocksRead += counts.mergedBlocks
    originalsRead += counts.originals
    counts.fallbacks.foreach { case (code, count) => addReason(code, count) }
  }

  def add(bytes: EncodedBytes): Unit = {
    rowBytes += bytes.rows
    encodedBytes += bytes.encoded
    compressedBytes += bytes.compressed
  }

  def addReason(code: String, count: Long): Unit = {
    val known = if (Reason.of(code).isDefined) code else "OTHER"
    reasons.update(known, reasons.getOrElse(known, 0L) + count)
  }
}

/**
 * The sums over all shuffles, and the last shuffles one by one. The event loop owns it, like all
 * state of the driver.
 */
private[driver] final class DriverReport extends Logged {
  import DriverReport._

  /** In the order of registration. Spark uses no shuffle id twice. */
  private val records = mutable.LinkedHashMap.empty[Int, ShuffleRecord]

  /** The shuffles of `records` that Spark removed, which are forgotten first. */
  private val finished = mutable.Queue.empty[Int]

  /** Grows with each report of a task and each decision. */
  var changes = 0L

  val totals = new ReportCounts
  @volatile var shuffles = 0L
  @volatile var merged = 0L
  @volatile var plain = 0L
  @volatile var remote = 0L
  @volatile var readersWaitedMs = 0L

  def kept: Iterable[ShuffleRecord] = records.values
  def numbers: Seq[(String, Long)] = Seq(
    "shuffles" -> shuffles,
    "merged" -> merged,
    "plain" -> plain,
    "remote" -> remote,
    "readersWaitedMillis" -> readersWaitedMs) ++ totals.numbers

  def registered(
      shuffleId: Int,
      numMaps: Int,
      numPartitions: Int,
      format: BlockFormat = BlockFormat.SparkStream): ShuffleRecord = {
    val record = new ShuffleRecord(shuffleId, numMaps, numPartitions, format)
    changes += 1
    shuffles += 1
    records.put(shuffleId, record)
    record
  }

  def began(id: ShuffleGeneration): Unit = records.get(id.shuffleId).foreach { record =>
    setState(record, ShuffleRecord.Registered)
    record.began(id.number)
  }

  def leftToSpark(
      shuffleId: Int,
      numMaps: Int,
      numPartitions: Int,
      reason: Reason,
      format: BlockFormat = BlockFormat.SparkStream): Unit = {
    val record = registered(shuffleId, numMaps, numPartitions, format)
    setState(record, ShuffleRecord.Plain)
    count(record, reason, 1)
  }

  def pushed(message: MapPushed): Unit = {
    changes += 1
    totals.add(message.counts)
    of(message.generation).foreach { record =>
      record.counts.add(message.counts)
      record.generationBlocks += message.counts.blocks
    }
  }

  def read(message: TaskRead): Unit = {
    changes += 1
    totals.add(message.counts)
    of(message.generation).foreach(_.counts.add(message.counts))
  }

  def encoded(message: MapEncoded): Unit = {
    changes += 1
    totals.add(message.bytes)
    records.get(message.shuffleId).foreach(_.counts.add(message.bytes))
  }

  def counted(id: ShuffleGeneration, reason: Reason, count: Long): Unit =
    of(id).filter(_ => count > 0).foreach(this.count(_, reason, count))

  /** Counts a reason that is not of one shuffle. */
  def noted(reason: Reason): Unit = totals.addReason(reason.code, 1)

  def nothingPushed(id: ShuffleGeneration): Boolean = of(id).forall(_.generationBlocks == 0)

  /** Records the reason why readers take the originals of this generation. */
  def decided(id: ShuffleGeneration, answer: NoPlan): Unit = of(id).foreach { record =>
    changes += 1
    setState(record, ShuffleRecord.Plain)
    val reason = answer.reason
    count(record, reason, 1)
    log.info(
      s"shuffle ${id.shuffleId}: no more blocks go to services: ${reason.sentence} ($reason)" +
        weighed(record))
  }

  /**
   * Records the answer that tasks of this generation get, and the state of a shuffle with a plan.
   */
  def settled(id: ShuffleGeneration, answer: PlanAnswer, state: ShuffleRecord.State): Unit =
    answer match {
      case none: NoPlan => decided(id, none)
      case plan: ShufflePlan => of(id).foreach { record =>
          changes += 1
          record.services = plan.versions.flatten.distinct.length
          setState(record, state)
          log.info(if (state == ShuffleRecord.Remote) remoteSentence(record) else sentence(record))
        }
    }

  def chose(id: ShuffleGeneration, sample: MapSample, limits: Option[MergeLimits]): Unit =
    of(id).foreach { record =>
      record.sample = Some(sample)
      record.limits = limits
    }

  /** Records the time from the first question of a reader to its answer. */
  def waited(id: ShuffleGeneration, ms: Long): Unit = of(id).foreach { record =>
    record.readersWaitedMs = ms
    readersWaitedMs += ms
  }

  def removed(shuffleId: Int): Unit = if (records.contains(shuffleId)) {
    finished.enqueue(shuffleId)
    if (finished.size > MaxFinished) records.remove(finished.dequeue())
  }

  /** Returns the line of the log with the sums. */
  def farewell: String = {
    val left = reasonList(totals)
    val away = if (remote > 0) f"$remote%,d remote, " else ""
    f"lodestone: $merged%,d of $shuffles%,d shuffles merged, $away" +
      f"${totals.blocksPushed}%,d blocks (${totals.bytesPushed}%,d bytes) pushed, " +
      f"${totals.mergedBlocksRead}%,d blocks read in " +
      f"${totals.chunksRead}%,d chunks, ${totals.originalsRead}%,d read from originals$left; " +
      f"readers waited $readersWaitedMs%,d ms for pushes to end"
  }

  private def of(id: ShuffleGeneration): Option[ShuffleRecord] =
    records.get(id.shuffleId).filter(_.generation == id.number)

  private def count(record: ShuffleRecord, reason: Reason, count: Long): Unit = {
    record.counts.addReason(reason.code, count)
    totals.addReason(reason.code, count)
  }

  private def setState(record: ShuffleRecord, state: ShuffleRecord.State): Unit = {
    def change(of: ShuffleRecord.State, by: Long): Unit = of match {
      case ShuffleRecord.Merged => merged += by
      case ShuffleRecord.Plain => plain += by
      case ShuffleRecord.Remote => remote += by
      case ShuffleRecord.Registered =>
    }
    change(record.state, -1)
    record.state = state
    change(state, 1)
  }

  private def remoteSentence(record: ShuffleRecord): String =
    s"shuffle ${record.shuffleId}: its maps push to ${servicesOf(record)}, and keep nothing"

  private def sentence(record: ShuffleRecord): String =
    f"shuffle ${record.shuffleId}: ${record.counts.blocksPushed}%,d blocks of " +
      f"${record.numPartitions}%,d partitions pushed to ${servicesOf(record)}" +
      s"${reasonList(record.counts)}${weighed(record)}"

  private def reasonList(counts: ReportCounts): String =
    if (counts.reasons.isEmpty) {
      ""
    } else {
      val each = counts.reasonsInOrder.map { case (code, count) => format(code, count) }
      each.mkString("; reasons: ", ", ", "")
    }

  private def format(code: String, count: Long): String =
    "%s %,d".formatLocal(Locale.ROOT, code, count)
}

private[driver] object DriverReport {

  private def servicesOf(record: ShuffleRecord): String =
    if (record.services == 1) "1 service" else s"${record.services} services"

  private def weighed(record: ShuffleRecord): String = record.sample.map { sample =>
    val seen =
      f"; ${sample.maps}%,d maps had ${sample.blocks}%,d blocks " +
        f"of ${sample.bytes}%,d bytes together"
    val disk =
      if (sample.diskReadMicros < 0) ""
      else f", a small read takes ${sample.diskReadMicros}%,d us"
    val against = record.limits.map { limits =>
      f" (shuffles are merged from ${limits.leastBlocks}%,d blocks on, " +
        f"up to ${limits.largestMeanBytes}%,d bytes per block on average)"
    }
    seen + disk + against.getOrElse("")
  }.getOrElse("")

  /** A record has some hundred bytes. */
  private val MaxFinished = 1000
}

/** A shuffle is merged from this number of blocks on, up to this mean size. */
private[driver] final case class MergeLimits(leastBlocks: Long, largestMeanBytes: Long)
