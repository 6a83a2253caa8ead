// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.LinkedHashMap
import java.util.concurrent.TimeUnit

import scala.concurrent.Future
import scala.concurrent.duration.DurationLong
import scala.util.{Failure, Success, Try}

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.ShuffleReadMetricsReporter
import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan.{CountedMaps, GetCounts, OwnHandle}
import org.apache.spark.shuffle.lodestone.plan.counts.CountLimits
import org.apache.spark.shuffle.lodestone.transport.SameThread
import org.apache.spark.storage.BlockId

/**
 * How many records map tasks wrote, as the driver knows it. There is one for the executor. Of a small
 * shuffle it asks once for each stage attempt, and once more where a map was run again meanwhile. Of others
 * each task asks for what it reads. No answer fails a task.
 */
private[lodestone] final class WrittenRecords(
    driver: DriverLink,
    waitMs: Long,
    clockNs: () => Long = () => System.nanoTime()) {
  import WrittenRecords._

  /** The one that was idle longest comes first. */
  private val answers = new LinkedHashMap[Key, Future[ToldRecords]](16, 0.75f, true)

  /** When the driver last let a task wait for nothing. */
  @volatile private var silentSinceNs: Option[Long] = None

  /** Of what the task reads. Nothing is asked before the first number is needed. */
  private[fetch] def of(
      handle: OwnHandle[_, _, _],
      range: ReadRange,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): Asked = {
    val numPartitions = handle.dependency.partitioner.numPartitions
    def own = if (isSilent) Nobody else ask(range.countsOf(handle.shuffleId))
    if (!handle.isCounted) {
      new Asked(metrics, Nobody, Nobody)
    } else if (CountLimits.isAskedWhole(handle.numMaps, numPartitions)) {
      val key = Key(handle.shuffleId, context.stageId(), context.stageAttemptNumber())
      new Asked(metrics, whole(key), own)
    } else {
      new Asked(metrics, own, Nobody)
    }
  }

  /** Nothing of the shuffle is remembered. */
  def removed(shuffleId: Int): Unit = answers.synchronized {
    answers.keySet().removeIf(_.shuffleId == shuffleId)
    ()
  }

  private def whole(key: Key): Future[ToldRecords] = answers.synchronized {
    Option(answers.get(key)).getOrElse {
      if (isSilent) {
        Nobody
      } else {
        val asked = ask(GetCounts(key.shuffleId, 0, Int.MaxValue, 0, Int.MaxValue))
        answers.put(key, asked)
        asked.andThen {
          case Failure(_) => forget(key)
          case Success(_) => makeRoom()
        }(SameThread)
      }
    }
  }

  private def forget(key: Key): Unit = answers.synchronized {
    answers.remove(key)
    ()
  }

  private def makeRoom(): Unit = answers.synchronized {
    var bytes = 0L
    answers.values().forEach(answer => bytes += bytesOf(answer))
    val eldest = answers.values().iterator()
    while (eldest.hasNext && (bytes > MaxBytes || answers.size() > MaxEntries)) {
      bytes -= bytesOf(eldest.next())
      eldest.remove()
    }
  }

  private def bytesOf(answer: Future[ToldRecords]): Long =
    answer.value.flatMap(_.toOption).fold(0L)(_.bytes)

  private def ask(asked: GetCounts): Future[ToldRecords] =
    askAll(asked).map(new ToldRecords(_))(SameThread)

  /** The first question looks the driver's endpoint up, which may fail at once. */
  private def askAll(asked: GetCounts): Future[List[CountedMaps]] =
    Future.fromTry(Try(driver.counts(asked))).flatMap(identity)(SameThread).flatMap {
      case some: CountedMaps if some.nextMapIndex > asked.startMapIndex =>
        askAll(asked.copy(startMapIndex = some.nextMapIndex)).map(some :: _)(SameThread)
      case last: CountedMaps => Future.successful(List(last))
    }(SameThread)

  private def isSilent: Boolean =
    silentSinceNs.exists(since => clockNs() - since < SilentNs)

  /**
   * What one task asks for.
   *
   * @param again
   *   what it asks where others had asked before it: a map may have been run again since
   */
  private[fetch] final class Asked(
      metrics: ShuffleReadMetricsReporter,
      ask: => Future[ToldRecords],
      again: => Future[ToldRecords])
      extends BlockRecords {
    private lazy val asked = ask
    private lazy val told = FetchWait(metrics)(answer(asked))
    private lazy val toldAgain = FetchWait(metrics)(answer(again))

    /** The answer comes while the task fetches. */
    def begin(): this.type = {
      asked
      this
    }

    override def in(id: BlockId): Long = {
      val known = told.in(id)
      if (known == BlockRecords.NotTold) toldAgain.in(id) else known
    }

    private def answer(awaited: Future[ToldRecords]): BlockRecords =
      if (awaited.isCompleted || !isSilent) {
        // A future that is complete has its value: nobody waits.
        driver.awaitAnswer(awaited, "how many records maps wrote", waitMs.millis).getOrElse {
          silentSinceNs = Some(clockNs())
          BlockRecords.Unknown
        }
      } else {
        BlockRecords.Unknown
      }
  }
}

private[fetch] object WrittenRecords {

  /** Of all answers: mostly each has some ten KB. */
  private val MaxBytes = 16L << 20

  /** Stage attempts of small shuffles. */
  private val MaxEntries = 1024

  /** No other task waits for a driver that did not answer one, for so long. */
  private val SilentNs = TimeUnit.SECONDS.toNanos(30)

  private val Nobody: Future[ToldRecords] = Future.successful(new ToldRecords(Nil))

  private final case class Key(shuffleId: Int, stageId: Int, stageAttempt: Int)
}
