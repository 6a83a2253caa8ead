// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.LinkedHashMap
import java.util.concurrent.TimeUnit

import scala.concurrent.Future
import scala.concurrent.duration.DurationLong
import scala.util.{Failure, Success}

import org.apache.spark.shuffle.lodestone.executor.link.{DriverLink, StageAttempt}
import org.apache.spark.shuffle.lodestone.plan.{CountedMaps, GetCounts, OwnHandle}
import org.apache.spark.shuffle.lodestone.plan.counts.CountLimits
import org.apache.spark.shuffle.lodestone.transport.SameThread
import org.apache.spark.storage.BlockId

/**
 * Asks the driver how many records map tasks wrote; one for the executor. For a small shuffle it
 * asks once in each attempt of a stage, and again if a map has run again since. For others each
 * task asks for what it reads. A missing answer fails no task.
 */
private[lodestone] final class WrittenRecords(
    driver: DriverLink,
    waitMs: Long,
    clockNs: () => Long = () => System.nanoTime()) {
  import WrittenRecords._

  /** The least recently used one comes first. */
  private val answers = new LinkedHashMap[Key, Future[CountedRecords]](16, 0.75f, true)

  /** When a task last waited for the driver in vain. */
  @volatile private var silentSinceNs: Option[Long] = None

  /** Returns the numbers for what the task reads. It asks when the first number is needed. */
  private[fetch] def of(handle: OwnHandle[_, _, _], task: ReduceTask): Asked = {
    val numPartitions = handle.dependency.partitioner.numPartitions
    def own = if (isSilent) Nobody else ask(task.range.countsOf(handle.shuffleId))
    if (!handle.isCounted) {
      new Asked(task, Nobody, Nobody)
    } else if (CountLimits.isAskedWhole(handle.numMaps, numPartitions)) {
      val key = Key(handle.shuffleId, task.stage)
      new Asked(task, whole(key), own)
    } else {
      new Asked(task, own, Nobody)
    }
  }

  /** For a task that may read no block without its number: it always asks, and waits longer. */
  private[fetch] def required(handle: OwnHandle[_, _, _], task: ReduceTask): Asked = {
    def own = if (handle.isCounted) ask(task.range.countsOf(handle.shuffleId)) else Nobody
    new Asked(task, own, Nobody, isRequired = true)
  }

  def removed(shuffleId: Int): Unit = answers.synchronized {
    answers.keySet().removeIf(_.shuffleId == shuffleId)
    ()
  }

  private def whole(key: Key): Future[CountedRecords] = answers.synchronized {
    Option(answers.get(key)).getOrElse {
      if (isSilent) {
        Nobody
      } else {
        val asked = ask(GetCounts(key.shuffleId, 0, Int.MaxValue, 0, Int.MaxValue))
        answers.put(key, asked)
        asked.andThen {
          case Failure(_) => answers.synchronized(answers.remove(key))
          case Success(_) => makeRoom()
        }(SameThread)
      }
    }
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

  private def bytesOf(answer: Future[CountedRecords]): Long =
    answer.value.flatMap(_.toOption).fold(0L)(_.bytes)

  private def ask(asked: GetCounts): Future[CountedRecords] =
    askAll(asked).map(new CountedRecords(_))(SameThread)

  private def askAll(asked: GetCounts): Future[List[CountedMaps]] =
    driver.ask(asked).flatMap {
      case some: CountedMaps if some.nextMapIndex > asked.startMapIndex =>
        askAll(asked.copy(startMapIndex = some.nextMapIndex)).map(some :: _)(SameThread)
      case last: CountedMaps => Future.successful(List(last))
    }(SameThread)

  private def isSilent: Boolean =
    silentSinceNs.exists(since => clockNs() - since < SilentNs)

  /**
   * The numbers for one task.
   *
   * @param again
   *   the question if another task's answer lacks a number: a map may have run again since
   */
  private[fetch] final class Asked(
      task: ReduceTask,
      ask: => Future[CountedRecords],
      again: => Future[CountedRecords],
      isRequired: Boolean = false)
      extends BlockRecords {
    private def limit = if (isRequired) driver.answerTimeout else waitMs.millis

    private lazy val asked = ask
    private lazy val counted = task.waiting(answer(asked))
    private lazy val countedAgain = task.waiting(answer(again))

    /** Asks now: the answer comes while the task fetches. */
    def begin(): this.type = {
      asked
      this
    }

    override def in(id: BlockId): Long = counted.orElse(countedAgain).in(id)

    private def answer(awaited: Future[CountedRecords]): BlockRecords =
      if (awaited.isCompleted || isRequired || !isSilent) {
        driver.awaitAnswer(awaited, "the question how many records maps wrote", limit).getOrElse {
          silentSinceNs = Some(clockNs())
          BlockRecords.Unknown
        }
      } else {
        BlockRecords.Unknown
      }
  }
}

private[fetch] object WrittenRecords {

  /** For all answers: most of them have some ten KB. */
  private val MaxBytes = 16L << 20

  /** Stage attempts of small shuffles. */
  private val MaxEntries = 1024

  /** If one task got no answer, no other one waits for so long. */
  private val SilentNs = TimeUnit.SECONDS.toNanos(30)

  private val Nobody: Future[CountedRecords] = Future.successful(new CountedRecords(Nil))

  private final case class Key(shuffleId: Int, stage: StageAttempt)
}
