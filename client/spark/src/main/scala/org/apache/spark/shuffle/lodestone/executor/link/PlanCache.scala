// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.link

import java.util.{LinkedHashMap, Map => JMap}
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.concurrent.Future
import scala.util.Success

import org.apache.spark.shuffle.lodestone.plan.{GetPlan, GetReadPlan, MapSample, PlanAnswer}
import org.apache.spark.shuffle.lodestone.plan.{ServiceTrouble, ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.SameThread

/** One attempt of a stage. */
private[lodestone] final case class StageAttempt(stageId: Int, number: Int)

/** The plans that one executor has got from the driver. It asks again after a failure. */
private[lodestone] final class PlanCache(driver: DriverLink) {
  import PlanCache._

  private val pushing = mutable.HashMap.empty[Int, Pushing]

  /** Outside of the lock of this object: what is asked may wait for a disk. */
  private val merging = new ConcurrentHashMap[ShuffleGeneration, MergeQuestion]()

  /**
   * The last questions of reduce tasks. Their answers are not for map tasks: they may name services
   * that are avoided by now, or say that there is no plan yet.
   */
  private val reading = new LinkedHashMap[Reading, Future[PlanAnswer]](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[Reading, Future[PlanAnswer]]): Boolean =
      size() > MaxReading
  }

  /**
   * For the output of a map task that the executor keeps: whether and where it is merged.
   *
   * @param measured
   *   adds the read time of the disk to the sizes of all map outputs so far
   */
  def toMerge(generation: ShuffleGeneration, lengths: Array[Long])(
      measured: MapSample => MapSample): Future[PlanAnswer] =
    merging.computeIfAbsent(generation, _ => new MergeQuestion).apply(lengths) { seen =>
      driver.ask(GetPlan(generation.shuffleId, generation.number, Some(measured(seen))))
    }

  /**
   * For a map task of a remote shuffle: the newest known plan, if the driver was asked since this
   * attempt of the stage began. A stage may run again because an earlier plan's services lost all.
   */
  def toPush(shuffleId: Int, shuffleMergeId: Int, stage: StageAttempt): Future[PlanAnswer] =
    push(GetPlan(shuffleId, shuffleMergeId), Some(stage)) { known =>
      known.shuffleMergeId >= shuffleMergeId && known.stages(stage) && isHopeful(known.answer)
    }

  /** For a map task that met trouble. Another one may have got the next plan before. */
  def after(trouble: ServiceTrouble, shuffleId: Int, shuffleMergeId: Int): Future[PlanAnswer] =
    push(GetPlan(shuffleId, shuffleMergeId, trouble = Some(trouble)), None) { known =>
      isNewer(known.answer, trouble.generation, trouble.version)
    }

  /**
   * For a reduce task of a merged shuffle. Each attempt of a stage asks until it has an answer, and
   * keeps that: the merged data may have proved wrong since the attempt before.
   */
  def toRead(generation: ShuffleGeneration, stage: StageAttempt): Future[PlanAnswer] =
    synchronized {
      val key = Reading(generation.shuffleId, Some(generation -> stage))
      Option(reading.get(key)).getOrElse(ask(key, generation))
    }

  /**
   * For a reduce task of a remote shuffle, whose map outputs were pushed by this version of the
   * plan, or earlier ones. A task that comes while another one's question is under way waits for
   * its answer. The driver may have given that before the version was made: then all that waited
   * ask once more, together.
   */
  def toRead(generation: ShuffleGeneration, version: Int): Future[PlanAnswer] = synchronized {
    val key = Reading(generation.shuffleId, None)
    def asked = Option(reading.get(key))
    def known = (asked ++ pushing.get(generation.shuffleId).map(_.answer))
      .find(isNewer(_, generation.number, version - 1))
    known.getOrElse {
      asked.filterNot(_.isCompleted) match {
        case None => ask(key, generation)
        case Some(earlier) =>
          earlier.transformWith { _ =>
            synchronized {
              known.orElse(asked.filterNot(_ eq earlier)).getOrElse(ask(key, generation))
            }
          }(SameThread)
      }
    }
  }

  def forget(shuffleId: Int): Unit = synchronized {
    pushing.remove(shuffleId)
    merging.keySet().removeIf(_.shuffleId == shuffleId)
    reading.keySet().removeIf(_.shuffleId == shuffleId)
    ()
  }

  private def ask(key: Reading, generation: ShuffleGeneration): Future[PlanAnswer] = {
    val asked = driver.ask(GetReadPlan(generation.shuffleId, generation.number))
    reading.put(key, asked)
    asked.failed.foreach(_ => synchronized(reading.remove(key, asked)))(SameThread)
    asked
  }

  private def push(question: GetPlan, stage: Option[StageAttempt])(
      isGood: Pushing => Boolean): Future[PlanAnswer] = synchronized {
    val before = pushing.get(question.shuffleId)
    before.filter(isGood).map(_.answer).getOrElse {
      val asked = driver.ask(question)
      val newest = before.map(_.shuffleMergeId).foldLeft(question.shuffleMergeId)(math.max)
      val stages = before.fold(Set.empty[StageAttempt])(_.stages) ++ stage
      pushing.put(question.shuffleId, Pushing(newest, stages, asked))
      asked
    }
  }

  /** A question under way counts: most answers are plans. */
  private def isHopeful(answer: Future[PlanAnswer]): Boolean =
    answer.value.forall(_.toOption.exists(_.isInstanceOf[ShufflePlan]))

  private def isNewer(answer: Future[PlanAnswer], generation: Int, version: Int): Boolean =
    answer.value.exists {
      case Success(plan: ShufflePlan) =>
        plan.generation > generation || (plan.generation == generation && plan.newest > version)
      case _ => false
    }
}

private[lodestone] object PlanCache {

  /** Stage attempts that one executor reads for at about the same time. */
  private val MaxReading = 256

  /** `stage` for a merged shuffle; a remote shuffle has one question for all its readers. */
  private final case class Reading(
      shuffleId: Int,
      stage: Option[(ShuffleGeneration, StageAttempt)])

  /** What the executor's map tasks of a shuffle have asked, and for which attempts of its stage. */
  private final case class Pushing(
      shuffleMergeId: Int,
      stages: Set[StageAttempt],
      answer: Future[PlanAnswer])
}
