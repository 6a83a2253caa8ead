// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.loss

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future}

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan.{MissingBlock, OutputsLost, Reason, ServiceLocation}
import org.apache.spark.shuffle.lodestone.plan.ShuffleGeneration
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.SeenSegments

/**
 * Whether map outputs are lost of which a reduce task says so. It may be its executor that is in trouble:
 * then all maps would be run again for nothing, and again for each service that the executor cannot
 * reach. So the driver asks the services itself ([[ShownOutputs]]), where they know, and counts who
 * complains.
 * docs/failures.md has the rule. All calls are events of the loop.
 */
private[driver] final class LossClaims(
    conf: LodestoneConf,
    client: ServiceClient,
    executorCount: () => Future[Int],
    loop: EventLoop) {
  import LossClaims._
  import ShownOutputs._

  private val log = LoggerFactory.getLogger(classOf[LossClaims])
  private implicit val events: ExecutionContext = loop.context
  private val shown = new ShownOutputs(conf, client, loop)
  private val complaints = mutable.HashMap.empty[ShuffleGeneration, Complaints]

  /** Generations of which somebody has complained. */
  def complainedOf: Int = complaints.size

  /** Nobody reads this generation any more. */
  def forget(id: ShuffleGeneration): Unit = {
    complaints.remove(id)
    ()
  }

  /**
   * Calls back once, within two and a half times of what the driver waits for a service, and the second
   * that it waits for the number of executors.
   */
  def judge(of: Generation, claim: OutputsLost)(verdict: Verdict => Unit): Unit =
    if (WrongRecords.contains(claim.code)) {
      complain(of.id, claim, verdict)
    } else if (claim.services.isEmpty || !isDoubtful(claim)) {
      verdict(Lost(claim.services))
    } else {
      val about = aboutOf(claim)
      val answers = Future.traverse(askedFor(of, claim)) { service =>
        shown(service, of.id, about).map(service -> _)
      }
      answers.foreach { all =>
        val lost = lostAt(of, claim, about, all)
        if (lost.nonEmpty || of.isOver) verdict(Lost(lost))
        else complain(of.id, claim, verdict)
      }
    }

  /** Of what came damaged there may be a copy that the task could not get. */
  private def askedFor(of: Generation, claim: OutputsLost): Seq[ServiceLocation] = {
    val others = claim.damaged.toSeq.flatMap(segment => of.servicesOf(segment.reduceId))
    (claim.services ++ others).distinct
  }

  /** The services that Spark's next run of the maps goes without. None: nothing is lost. */
  private def lostAt(
      of: Generation,
      claim: OutputsLost,
      about: About,
      answers: Seq[(ServiceLocation, Shown)]): Seq[ServiceLocation] = {
    val shown = answers.map(_._2)
    val gone = answers.collect { case (service, NotShown) => service }.intersect(claim.services)
    about match {
      case OfBlock(block) => if (isWhole(block, shown)) Nil else claim.services
      case BytesOf(_) =>
        val damaged = answers.collect { case (service, Damaged) => service }
        if (shown.contains(Known)) Nil else damaged ++ gone
      case OfShuffle => if (of.isWholeWithout(gone.toSet)) Nil else gone
    }
  }

  private def isDoubtful(claim: OutputsLost): Boolean =
    Doubtful.contains(claim.code) || claim.damaged.isDefined

  private def aboutOf(claim: OutputsLost): About =
    claim.damaged.map(BytesOf).orElse(claim.missing.map(OfBlock)).getOrElse(OfShuffle)

  /**
   * All segments of the block are there, at one of the services or spread over them. A service without
   * time to say so may have those that are missing.
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
   * Nothing is lost as far as the driver can tell. Spark lets a barrier stage fail a few times only, for
   * whatever reason, and then ends the job: its readers are not asked to find another executor.
   */
  private def complain(
      id: ShuffleGeneration,
      claim: OutputsLost,
      verdict: Verdict => Unit): Unit = {
    val ofShuffle = complaints.getOrElseUpdate(id, new Complaints)
    claim.services.foreach(ofShuffle.add(_, claim.executorId))
    val isProved = WrongRecords.contains(claim.code) &&
      ofShuffle.isProvedBy(claim.executorId, claim.reduceId)
    executorCount().onComplete { running =>
      val most = running.toOption.toSeq.flatMap { count =>
        claim.services.filter(ofShuffle.executorsThatMiss(_) * 2 > count)
      }
      val isAlone = running.toOption.exists(_ <= 1)
      val rounds = ofShuffle.roundsOf(claim.executorId)
      if (most.nonEmpty) verdict(Lost(most))
      else if (isProved || isAlone || claim.isOfBarrier ||
        rounds.areOver(claim.reduceId, loop.nowMs)) verdict(Lost(claim.services))
      else await(rounds, claim, verdict)
    }
  }

  /**
   * The task's core waits with it, so that another executor takes what is run again. All tasks of an
   * executor that complain meanwhile are one round.
   */
  private def await(rounds: Rounds, claim: OutputsLost, verdict: Verdict => Unit): Unit =
    if (rounds.join(claim.reduceId, loop.nowMs, verdict)) {
      val where = claim.services.map(one => s" at ${one.hostPort}").mkString(",")
      log.warn(
        s"Executor ${claim.executorId} cannot read shuffle ${claim.shuffleId}$where " +
          s"(${claim.code}). It is there as far as the driver can tell: the task is run again")
      val pauseMs = math.min(FirstPauseMs << math.min(rounds.count, MostDoublings), LongestPauseMs)
      loop.later(math.min(pauseMs, conf.requestTimeoutMs / 2))(rounds.leave().foreach(_(There)))
    }
}

private[driver] object LossClaims {

  /** What is known of a generation of a shuffle. */
  private[loss] abstract class Generation(val id: ShuffleGeneration) {

    /** Whether nobody reads it any more: then nothing of it is remembered. */
    def isOver: Boolean

    /** Whether all that Spark says is there is at other services than these as well. */
    def isWholeWithout(gone: Set[ServiceLocation]): Boolean

    /** Services that may have segments of the partition. */
    def servicesOf(reduceId: Int): Seq[ServiceLocation]
  }

  sealed trait Verdict

  /** What only these services have can be read by nobody. */
  final case class Lost(at: Seq[ServiceLocation]) extends Verdict

  /** Another executor may be able to read it. */
  case object There extends Verdict

  /** What an executor that cannot reach a service says, or one of which a service has lost its part. */
  private val Doubtful: Set[String] = Set[Reason](
    Reason.LayoutFailed,
    Reason.ChunkFetchFailed,
    Reason.FetchTimedOut,
    Reason.FetchSuspect,
    Reason.FetchOverloaded,
    Reason.FetchRestarted,
    Reason.FetchDataGone,
    Reason.OutputLost).map(_.code)

  /**
   * What a reader says that got all bytes as they were pushed, and found other records in them than were
   * written. A service knows nothing of records: another executor tries, or the same one a few times.
   */
  private val WrongRecords: Set[String] =
    Set[Reason](Reason.ChunkBroken, Reason.RecordsMismatch).map(_.code)

  /** How often one executor finds a partition wrong before it is believed. */
  private val Proof = 3

  private val FirstPauseMs = 250L
  private val LongestPauseMs = 5000L
  private val MostDoublings = 10

  /**
   * Another executor should have taken the task by then. Rounds alone do not tell: they are short where
   * time-outs are, and others may be busy for minutes.
   */
  private val MostRounds = 60
  private val LongestTroubleMs = TimeUnit.MINUTES.toMillis(5)

  /** Of one generation of a shuffle: O(executors x (services + partitions)), of those in trouble. */
  private final class Complaints {
    private val executors = mutable.HashMap.empty[ServiceLocation, mutable.Set[String]]
    private val rounds = mutable.HashMap.empty[String, Rounds]

    /** By partition, who found wrong records in it, and how often. */
    private val wrong = mutable.HashMap.empty[Int, mutable.Map[String, Int]]

    /** Another executor says so too, or this one again and again. */
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
    private var waiting: List[Verdict => Unit] = Nil

    def count: Int = begun

    /** This executor gets the task again and again, and nobody else does. */
    def areOver(reduceId: Int, nowMs: Long): Boolean =
      partitions.get(reduceId).exists { trouble =>
        trouble.rounds >= MostRounds && nowMs - trouble.firstMs > LongestTroubleMs
      }

    /** True for the one who begins a round. */
    def join(reduceId: Int, nowMs: Long, verdict: Verdict => Unit): Boolean = {
      partitions.getOrElseUpdate(reduceId, new Trouble(nowMs)).rounds += 1
      val begins = waiting.isEmpty
      if (begins) begun += 1
      waiting ::= verdict
      begins
    }

    def leave(): List[Verdict => Unit] = {
      val all = waiting
      waiting = Nil
      all
    }
  }

  /** Of the tasks of a partition. */
  private final class Trouble(val firstMs: Long) {
    var rounds = 0
  }
}
