// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.driver.ui.Figures
import org.apache.spark.shuffle.lodestone.plan._

/**
 * The sums over all shuffles, and the last shuffles one by one. The event loop owns it, like all
 * state of the driver.
 *
 * @param clockMs
 *   the time since the epoch, for people
 */
private[driver] final class DriverReport(clockMs: () => Long = () => System.currentTimeMillis())
    extends Logged {
  import DriverReport._
  import Figures.number

  /** In the order of registration. Spark uses no shuffle id twice. */
  private val records = mutable.LinkedHashMap.empty[Int, ShuffleRecord]

  /** The shuffles of `records` that Spark removed, which are forgotten first. */
  private val finished = mutable.Queue.empty[Int]

  /** Grows with each report of a task and each decision. */
  var changes = 0L

  /** Is called after each change. */
  var changed: () => Unit = () => ()

  val totals = new ReportCounts
  @volatile var shuffles = 0L
  @volatile var merged = 0L
  @volatile var plain = 0L
  @volatile var remote = 0L
  @volatile var readersWaitedMs = 0L

  def kept: Iterable[ShuffleRecord] = records.values

  /** The shuffles that were changed after that number of changes. */
  def changedSince(number: Long): Seq[ShuffleRecord] =
    records.values.filter(_.changedAt > number).toSeq

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
    record.registeredMs = clockMs()
    shuffles += 1
    records.put(shuffleId, record)
    touch(Some(record))
    record
  }

  def began(id: ShuffleGeneration): Unit = touch(records.get(id.shuffleId)).foreach { record =>
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
    record.decidedMs = record.registeredMs
    record.decision = Some(reason)
    count(record, reason, 1)
  }

  def pushed(message: MapPushed): Unit = {
    totals.add(message.counts)
    changing(message.generation).foreach { record =>
      record.counts.add(message.counts)
      record.generationBlocks += message.counts.blocks
    }
  }

  def read(message: TaskRead): Unit = {
    totals.add(message.counts)
    changing(message.generation).foreach(_.counts.add(message.counts))
  }

  def encoded(message: MapEncoded): Unit = {
    totals.add(message.bytes)
    touch(records.get(message.shuffleId)).foreach { record =>
      record.counts.add(message.bytes)
      record.encodedLength += message.length
      record.encodedSize += message.size
    }
  }

  def counted(id: ShuffleGeneration, reason: Reason, count: Long): Unit =
    if (count > 0) changing(id).foreach(this.count(_, reason, count))

  /** Counts a reason that is not of one shuffle. */
  def noted(reason: Reason): Unit = {
    totals.addReason(reason.code, 1)
    touch(None)
    ()
  }

  /**
   * Returns how many times the length of the blocks of a shuffle their size is that Spark sees.
   * Both are sums over the same attempts: if a report is lost, or an attempt is repeated, others
   * or more of them count, on both sides. It is 1 while there is no report, or if rows are not
   * encoded.
   */
  def sizePerByte(shuffleId: Int): Double =
    records.get(shuffleId).filter(_.encodedLength > 0).fold(1.0) { record =>
      record.encodedSize.toDouble / record.encodedLength
    }

  def nothingPushed(id: ShuffleGeneration): Boolean = of(id).forall(_.generationBlocks == 0)

  /** Records the reason why readers take the originals of this generation. */
  def decided(id: ShuffleGeneration, answer: NoPlan): Unit = changing(id).foreach { record =>
    setState(record, ShuffleRecord.Plain)
    record.decidedMs = clockMs()
    val reason = answer.reason
    record.decision = Some(reason)
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
      case plan: ShufflePlan => changing(id).foreach { record =>
          record.services = plan.versions.flatten.distinct.length
          if (record.decidedMs == 0) record.decidedMs = clockMs()
          record.decision = None
          setState(record, state)
          say(
            record,
            if (state == ShuffleRecord.Remote) remoteSentence(record) else sentence(record))
        }
    }

  def chose(id: ShuffleGeneration, sample: MapSample, limits: Option[MergeLimits]): Unit =
    changing(id).foreach { record =>
      record.sample = Some(sample)
      record.limits = limits
    }

  /** Records the time from the first question of a reader to its answer. */
  def waited(id: ShuffleGeneration, ms: Long): Unit = changing(id).foreach { record =>
    record.readersWaitedMs = ms
    readersWaitedMs += ms
  }

  def removed(shuffleId: Int): Unit = records.get(shuffleId).foreach { record =>
    record.removedMs = clockMs()
    advance(Some(record))
    finished.enqueue(shuffleId)
    if (finished.size > MaxFinished) records.remove(finished.dequeue())
  }

  /** Returns the line of the log with the sums. */
  def farewell: String = {
    val left = reasonList(totals)
    val away = if (remote > 0) s"${number(remote)} remote, " else ""
    s"lodestone: ${number(merged)} of ${number(shuffles)} shuffles merged, $away" +
      s"${number(totals.blocksPushed)} blocks (${number(totals.bytesPushed)} bytes) pushed, " +
      s"${number(totals.mergedBlocksRead)} blocks read in " +
      s"${number(totals.chunksRead)} chunks, " +
      s"${number(totals.originalsRead)} read from originals$left; " +
      s"readers waited ${number(readersWaitedMs)} ms for pushes to end"
  }

  private def of(id: ShuffleGeneration): Option[ShuffleRecord] =
    records.get(id.shuffleId).filter(_.generation == id.number)

  private def changing(id: ShuffleGeneration): Option[ShuffleRecord] = touch(of(id))

  /** Counts a change: of this record, if there is one. */
  private def touch(record: Option[ShuffleRecord]): Option[ShuffleRecord] = {
    record.foreach(_.changedMs = clockMs())
    advance(record)
    record
  }

  private def advance(record: Option[ShuffleRecord]): Unit = {
    changes += 1
    record.foreach(_.changedAt = changes)
    changed()
  }

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

  /**
   * Spark logs much already. What goes as planned is in the sums at the end, in the tab of the UI,
   * and in the event log.
   */
  private def say(record: ShuffleRecord, sentence: => String): Unit =
    if (record.counts.reasons.nonEmpty) log.info(sentence)
    else if (log.isDebugEnabled) log.debug(sentence)

  private def remoteSentence(record: ShuffleRecord): String =
    s"shuffle ${record.shuffleId}: its maps push to ${servicesOf(record)}, and keep nothing"

  private def sentence(record: ShuffleRecord): String =
    s"shuffle ${record.shuffleId}: ${number(record.counts.blocksPushed)} blocks of " +
      s"${number(record.numPartitions)} partitions pushed to ${servicesOf(record)}" +
      s"${reasonList(record.counts)}${weighed(record)}"

  private def reasonList(counts: ReportCounts): String =
    if (counts.reasons.isEmpty) {
      ""
    } else {
      val each = counts.reasonsInOrder.map { case (code, count) => s"$code ${number(count)}" }
      each.mkString("; reasons: ", ", ", "")
    }
}

private[driver] object DriverReport {
  import Figures.number

  private def servicesOf(record: ShuffleRecord): String =
    if (record.services == 1) "1 service" else s"${record.services} services"

  private def weighed(record: ShuffleRecord): String = record.sample.map { sample =>
    val seen =
      s"; ${number(sample.maps)} maps had ${number(sample.blocks)} blocks " +
        s"of ${number(sample.bytes)} bytes together"
    val disk =
      if (sample.diskReadMicros < 0) ""
      else s", a small read takes ${number(sample.diskReadMicros)} us"
    val against = record.limits.map { limits =>
      s" (shuffles are merged from ${number(limits.leastBlocks)} blocks on, " +
        s"up to ${number(limits.largestMeanBytes)} bytes per block on average)"
    }
    seen + disk + against.getOrElse("")
  }.getOrElse("")

  /** A record has some hundred bytes. */
  private val MaxFinished = 1000
}

/** A shuffle is merged from this number of blocks on, up to this mean size. */
private[driver] final case class MergeLimits(leastBlocks: Long, largestMeanBytes: Long)
