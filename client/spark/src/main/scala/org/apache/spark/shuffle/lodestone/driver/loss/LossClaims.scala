// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.loss

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future}

import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Logged}
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.plans.Shuffle
import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.SeenSegments

/**
 * Decides whether map outputs are lost that a reduce task cannot read. The fault may be at its
 * executor. Then all maps would run again for nothing, and again for each service that the executor
 * cannot reach. So the driver asks the services itself ([[ShownOutputs]]) if they can know, and
 * counts the executors that complain. docs/failures.md has the rule. All calls are events of the
 * loop.
 */
private[driver] final class LossClaims(
    conf: LodestoneConf,
    client: ServiceClient,
    executorCount: () => Future[Int],
    loop: EventLoop) extends Logged {
  import LossClaims._
  import ShownOutputs._

  private implicit val events: ExecutionContext = loop.context
  private val shown = new ShownOutputs(conf, client, loop)
  private val complaints = mutable.HashMap.empty[ShuffleGeneration, Complaints]
  def complainedOf: Int = complaints.size

  def forget(id: ShuffleGeneration): Unit = {
    complaints.remove(id)
    ()
  }

  /**
   * Decides whether outputs of the present generation are lost. Calls back once, within two and a
   * half times the driver's time-out for a service, plus one second for the number of executors.
   */
  def judge(shuffle: Shuffle, claim: OutputsLost, isWholeAt: Set[ServiceLocation] => Boolean)(
      outcome: Outcome => Unit): Unit = {
    val id = shuffle.id
    if (WrongRecords.contains(claim.lost.reason)) {
      complain(id, claim, outcome)
    } else if (claim.lost.services.isEmpty || !isDoubtful(claim)) {
      outcome(Lost(claim.lost.services))
    } else {
      val about = aboutOf(claim)
      val answers = Future.traverse(askedFor(shuffle, claim)) { service =>
        // Only the service that refused the chunk has its segments in these slots.
        val ofOne =
          claim.lost.unread.filter(_ => claim.lost.services.contains(service)).map(OfChunk)
        shown(service, id, ofOne.getOrElse(about)).map(service -> _)
      }
      answers.foreach { all =>
        val lost = lostAt(claim, about, all, gone => isWholeAt(shuffle.services -- gone))
        // Complaints about a generation without readers would stay.
        if (lost.nonEmpty || shuffle.removed || shuffle.id != id) outcome(Lost(lost))
        else complain(id, claim, outcome)
      }
    }
  }

  /** Returns those of the services that do not show this generation. */
  def missingAt(
      id: ShuffleGeneration,
      services: Set[ServiceLocation]): Future[Set[ServiceLocation]] =
    Future
      .traverse(services.toSeq)(service => shown(service, id, OfShuffle).map(service -> _))
      .map(_.collect { case (service, NotShown) => service }.toSet)

  /** A damaged segment may have a replica that the task could not get. */
  private def askedFor(shuffle: Shuffle, claim: OutputsLost): Seq[ServiceLocation] = {
    val others = claim.lost.damaged.toSeq.flatMap(segment => shuffle.servicesOf(segment.reduceId))
    (claim.lost.services ++ others).distinct
  }

  /** Returns the services that the next generation must avoid, or none if nothing is lost. */
  private def lostAt(
      claim: OutputsLost,
      about: About,
      answers: Seq[(ServiceLocation, Shown)],
      isWholeWithout: Set[ServiceLocation] => Boolean): Seq[ServiceLocation] = {
    val shown = answers.map(_._2)
    val gone =
      answers.collect { case (service, NotShown) => service }.intersect(claim.lost.services)
    about match {
      case OfBlock(block) => if (isWhole(block, shown)) Nil else claim.lost.services
      case BytesOf(_) | OfChunk(_) =>
        val damaged = answers.collect { case (service, Damaged) => service }
        if (shown.contains(Known)) Nil else damaged ++ gone
      case OfShuffle => if (isWholeWithout(gone.toSet)) Nil else gone
    }
  }

  private def isDoubtful(claim: OutputsLost): Boolean =
    Doubtful.contains(claim.lost.reason) || claim.lost.damaged.isDefined

  private def aboutOf(claim: OutputsLost): About =
    claim.lost.damaged.map(BytesOf).orElse(claim.lost.missing.map(OfBlock)).getOrElse(OfShuffle)

  /**
   * True if all segments of the block exist, at one service or at several. A service without time
   * for an answer may have the missing ones.
   */
  private def isWhole(block: MissingBlock, shown: Seq[Shown]): Boolean = {
    val seen = new SeenSegments
    shown.foreach {
      case Segments(ofService) =>
        seen.nextService()
        ofService.foreach(seen.add)
      case Known | NotShown | Damaged =>
    }
    seen.isWhole(block.mapIndex) || shown.contains(Known)
  }

  /**
   * Handles a claim for which the driver finds nothing that is lost. Spark lets a barrier stage
   * fail only a few times, for any reason, and then ends the job. So its readers do not try
   * another executor.
   */
  private def complain(
      id: ShuffleGeneration,
      claim: OutputsLost,
      outcome: Outcome => Unit): Unit = {
    val ofShuffle = complaints.getOrElseUpdate(id, new Complaints)
    claim.lost.services.foreach(ofShuffle.add(_, claim.executorId))
    val isProved = WrongRecords.contains(claim.lost.reason) &&
      ofShuffle.isProvedBy(claim.executorId, claim.reduceId)
    executorCount().onComplete { running =>
      val most = running.toOption.toSeq.flatMap { count =>
        claim.lost.services.filter(ofShuffle.executorsThatMiss(_) * 2 > count)
      }
      val isAlone = running.toOption.exists(_ <= 1)
      val rounds = ofShuffle.roundsOf(claim.executorId)
      if (most.nonEmpty) outcome(Lost(most))
      else if (isProved || isAlone || claim.isOfBarrier ||
        rounds.areOver(claim.reduceId, loop.nowMs)) outcome(Lost(claim.lost.services))
      else await(rounds, claim, outcome)
    }
  }

  /**
   * Delays the answer, so that the task keeps its core and another executor takes the next attempt.
   * All complaints of one executor meanwhile are one round.
   */
  private def await(rounds: Rounds, claim: OutputsLost, outcome: Outcome => Unit): Unit =
    if (rounds.join(claim.reduceId, loop.nowMs, outcome)) {
      val where = claim.lost.services.map(one => s" at ${one.hostPort}").mkString(",")
      log.warn(
        s"Executor ${claim.executorId} cannot read shuffle ${claim.shuffleId}$where " +
          s"(${claim.lost.reason}). As far as the driver knows the data exists: the task is run " +
          "again")
      val pauseMs = math.min(FirstPauseMs << math.min(rounds.count, MostDoublings), LongestPauseMs)
      loop.later(math.min(pauseMs, conf.requestTimeoutMs / 2))(rounds.leave().foreach(_(There)))
    }
}

private[driver] object LossClaims {

  sealed trait Outcome

  /** Outputs that only these services have are lost. */
  final case class Lost(at: Seq[ServiceLocation]) extends Outcome

  /** The outputs exist. Another executor may be able to read them. */
  case object There extends Outcome

  /** The reasons that an executor in trouble may give, or that are about one service only. */
  private val Doubtful: Set[Reason] = Set(
    Reason.LayoutFailed,
    Reason.ChunkFetchFailed,
    Reason.FetchTimedOut,
    Reason.FetchSuspect,
    Reason.FetchOverloaded,
    Reason.FetchRestarted,
    Reason.FetchDataGone,
    Reason.FetchDiskFailed,
    Reason.OutputLost)

  /**
   * The reasons of a reader that got all bytes as they were pushed, and other records than were
   * written. A service knows nothing of records. So another executor tries, or the same one a few
   * times.
   */
  private val WrongRecords: Set[Reason] = Set(Reason.ChunkBroken, Reason.RecordsMismatch)

  /** After so many attempts the driver believes one executor that finds a partition wrong. */
  private val Proof = 3

  private val FirstPauseMs = 250L
  private val LongestPauseMs = 5000L
  private val MostDoublings = 10

  /**
   * After these limits another executor should have taken the task. The number of rounds alone is
   * not enough: rounds are short if time-outs are, and other executors may be busy for minutes.
   */
  private val MostRounds = 60
  private val LongestTroubleMs = TimeUnit.MINUTES.toMillis(5)

  /**
   * The complaints about one generation: O(executors x (services + partitions)), of those in
   * trouble.
   */
  private final class Complaints {
    private val executors = mutable.HashMap.empty[ServiceLocation, mutable.Set[String]]
    private val rounds = mutable.HashMap.empty[String, Rounds]

    /** By partition, how often each executor found wrong records in it. */
    private val wrong = mutable.HashMap.empty[Int, mutable.Map[String, Int]]

    /** True if another executor finds the same, or if this one does again and again. */
    def isProvedBy(executorId: String, reduceId: Int): Boolean = {
      val finders = wrong.getOrElseUpdate(reduceId, mutable.HashMap.empty)
      val times = finders.getOrElse(executorId, 0) + 1
      finders.put(executorId, times)
      finders.size > 1 || times >= Proof
    }

    def add(service: ServiceLocation, executorId: String): Unit = {
      executors.getOrElseUpdate(service, mutable.HashSet.empty) += executorId
      ()
    }

    def executorsThatMiss(service: ServiceLocation): Int =
      executors.get(service).fold(0)(_.size)

    def roundsOf(executorId: String): Rounds =
      rounds.getOrElseUpdate(executorId, new Rounds)
  }

  private final class Rounds {
    private val partitions = mutable.HashMap.empty[Int, Trouble]
    private var begun = 0
    private var waiting: List[Outcome => Unit] = Nil

    def count: Int = begun

    /** True if only this executor gets the task, again and again. */
    def areOver(reduceId: Int, nowMs: Long): Boolean =
      partitions.get(reduceId).exists { trouble =>
        trouble.rounds >= MostRounds && nowMs - trouble.firstMs > LongestTroubleMs
      }

    /** Returns true if this begins a round. */
    def join(reduceId: Int, nowMs: Long, outcome: Outcome => Unit): Boolean = {
      partitions.getOrElseUpdate(reduceId, new Trouble(nowMs)).rounds += 1
      val begins = waiting.isEmpty
      if (begins) begun += 1
      waiting ::= outcome
      begins
    }

    def leave(): List[Outcome => Unit] = {
      val all = waiting
      waiting = Nil
      all
    }
  }

  private final class Trouble(val firstMs: Long) {
    var rounds = 0
  }
}
