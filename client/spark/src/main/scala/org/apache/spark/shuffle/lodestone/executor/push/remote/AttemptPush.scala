// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.util.concurrent.atomic.AtomicBoolean

import scala.collection.mutable
import scala.concurrent.Future
import scala.util.{Failure, Success, Try}

import org.slf4j.LoggerFactory

import org.apache.spark.{SparkException, TaskKilledException}
import org.apache.spark.shuffle.lodestone.executor.link.RemotePlans
import org.apache.spark.shuffle.lodestone.executor.push.PushReason
import org.apache.spark.shuffle.lodestone.plan.{NoPlan, PlanAnswer, Reason, RemoteOutput}
import org.apache.spark.shuffle.lodestone.plan.{RemotePart, ServiceLocation, ServiceTrouble}
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.plan.Stripes
import org.apache.spark.shuffle.lodestone.transport.{
  RetryPolicy,
  SameThread,
  ServiceClient,
  TaskWait
}
import org.apache.spark.shuffle.lodestone.wire.{Ledger, RefusedException, Status}

/** One attempt of a map task; `mergeId` is Spark's. */
private[remote] final case class MapAttempt(
    shuffleId: Int,
    mergeId: Int,
    mapIndex: Int,
    mapId: Long)

/** What the pushes of an attempt need of their executor. */
private[remote] final case class PushMeans(
    client: ServiceClient,
    plans: RemotePlans,
    patience: RetryPolicy,
    patienceWhereCopied: RetryPolicy) {
  def patienceWith(isCopied: Boolean): RetryPolicy = if (isCopied) patienceWhereCopied else patience
}

/**
 * What one map attempt pushes, from its first batch to its commit. What a service does not take goes to
 * another one, by the next version of the plan; what was taken by a service that is lost since cannot be
 * made again, and the attempt is given up: Spark runs another one, which does not count as failed.
 */
private[remote] final class AttemptPush(
    val attempt: MapAttempt,
    first: ShufflePlan,
    means: PushMeans,
    alive: () => Unit) {
  import AttemptPush._

  private val shares = new Shares(attempt)
  private var plan = first
  private var open = 0
  private var failure: Option[Throwable] = None
  private var isAborted = false
  private var requests = 0L

  /** How the first version of the plan spreads partitions over services. */
  val stripes: Stripes = first.stripes(first.newest)

  /** By the newest version that is known; a hint, as that may change at any time. */
  def groupOf(reduceId: Int): Int = synchronized(plan.groupOf(plan.newest, reduceId))

  /** For a task that waits for something else. */
  def throwIfOver(): Unit = {
    throwIfFailed()
    alive()
  }

  /** Does not wait. The body is let go when nothing of it has to be sent any more. */
  def push(body: SegmentBody): Unit =
    try {
      throwIfFailed()
      dispatch(body, 0, body.segments.length)
    } finally {
      body.letGo()
    }

  /** Waits until each segment is where it belongs, and shows all of them to readers. */
  def commit(): RemoteOutput = {
    awaitPushes()
    val locations = synchronized(shares.whole)
    val commits = locations.map { case (location, ledger) =>
      location -> commitAt(location, ledger)
    }
    for ((location, outcome) <- commits) awaitTask(outcome) match {
      case Success(_) =>
      case Failure(refused: RefusedException) if refused.status == Status.Aborted => fail(GivenUp)
      case Failure(cause) => notCommitted(location, cause)
    }
    throwIfFailed()
    synchronized {
      abortAt(shares.spoiled)
      output
    }
  }

  /** Nothing of it will be read. In any state, and more than once. */
  def abort(): Unit = synchronized {
    if (!isAborted) {
      isAborted = true
      if (failure.isEmpty) failure = Some(new TaskKilledException("the map attempt was aborted"))
      abortAt(shares.all)
    }
  }

  /** For the report: requests that were sent. */
  def requestCount: Long = synchronized(requests)

  private def output: RemoteOutput = {
    val parts = shares.versions.map(version => RemotePart(version, shares.without(plan, version)))
    RemoteOutput(plan.generation, parts)
  }

  private def generation(epoch: Int): ShuffleGeneration =
    ShuffleGeneration(attempt.shuffleId, epoch)

  /** Sends `from until until` of the body by the newest version. */
  private def dispatch(body: SegmentBody, from: Int, until: Int): Unit = {
    val batches = synchronized {
      val cut = BatchCut(plan, body.segments, from, until).map(new Batch(body, plan, _))
      open += cut.size
      cut.foreach(_ => body.hold())
      cut
    }
    // Those that are left when one cannot be sent are not.
    val left = batches.iterator
    try left.foreach(_.send())
    finally left.foreach(_.settle())
  }

  private def settled(body: SegmentBody): Unit = {
    body.letGo()
    synchronized {
      open -= 1
      notifyAll()
    }
  }

  /** Of one group, on its way to all services of that. */
  private final class Batch(body: SegmentBody, sentBy: ShufflePlan, cut: BatchCut) {
    private val segments = body.segments.slice(cut.from, cut.until)
    private val firstSegment = body.firstSegment + cut.from
    private val holders = sentBy.servicesOf(cut.version, cut.group)
    private val verdicts = mutable.LinkedHashMap.empty[ServiceLocation, Verdict]
    private val isSettled = new AtomicBoolean

    def send(): Unit = guarded[Unit](_ => holders.foreach(sendTo))(Success(()))

    /** Nothing of it has to be sent any more. */
    def settle(): Unit = if (isSettled.compareAndSet(false, true)) settled(body)

    private def sendTo(location: ServiceLocation): Unit = {
      val isLost = AttemptPush.this.synchronized {
        shares.touch(location)
        shares.isSpoiled(location)
      }
      val outcome =
        if (isLost) Future.successful(Lost(Spoiled)) else pushTo(location, isCopied(location))
      outcome.onComplete(guarded { result =>
        judged(location, result.getOrElse(Lost(Spoiled)))
      })(SameThread)
    }

    private def isCopied(location: ServiceLocation): Boolean = AttemptPush.this.synchronized {
      holders.exists(other => other != location && !shares.isSpoiled(other))
    }

    private def pushTo(location: ServiceLocation, isCopied: Boolean): Future[Verdict] = {
      val push = new BatchPush(attempt, generation(sentBy.generation), firstSegment, segments)
      val body = this.body.slice(cut.from, cut.until)
      means.patienceWith(isCopied)(location)(() => isGoingOn)(() =>
        push(means.client, location, body)(counted())).transform {
        outcome => Success(push.verdict(outcome))
      }(SameThread)
    }

    private def judged(location: ServiceLocation, verdict: Verdict): Unit = {
      val next = AttemptPush.this.synchronized {
        verdicts.put(location, verdict)
        if (verdicts.size < holders.size) None
        // What an aborted attempt is refused with says nothing of the service.
        else if (!isGoingOn) Some(() => settle())
        else if (verdicts.values.exists(_ == Dropped)) Some(() => failed(GivenUp))
        else if (sentBy.generation != plan.generation) Some(() => again(0))
        else Some(conclusion())
      }
      next.foreach(_.apply())
    }

    /** What is to be done now, outside of the lock. */
    private def conclusion(): () => Unit = {
      val told = verdicts.toSeq.map { case (location, verdict) =>
        location -> (if (shares.isSpoiled(location)) Lost(Spoiled) else verdict)
      }
      for ((location, verdict) <- told) {
        shares.add(location, cut.version, cut.group, segments.take(countOf(verdict)))
      }
      val troubles = told.collect { case (location, cause: NotTaken) => location -> cause }
      (troubles, told) match {
        case (Seq(), _) => () => settle()
        case (Seq((location, Refused(count, reason))), Seq(_)) =>
          () => elsewhere(location, reason, count)
        case _ =>
          val (location, cause) = troubles.head
          val isNowhere = !troubles.exists { case (holder, _) => shares.hasAny(holder) }
          troubles.foreach { case (holder, _) => shares.spoil(holder) }
          if (!shares.isCovered(plan)) () => giveUp(location, cause.reason)
          else if (troubles.size < told.size) () => goOnWithout(troubles)
          else if (isNowhere) () => elsewhere(location, cause.reason, 0)
          else () => giveUp(location, cause.reason)
      }
    }

    /** There is a whole copy. The next batches have two again, if there are services. */
    private def goOnWithout(troubles: Seq[(ServiceLocation, NotTaken)]): Unit = {
      for ((location, cause) <- troubles) {
        nextPlan(location, cause.reason).foreach {
          case next: ShufflePlan => adopt(next)
          case _ => // it goes on with the services that it has
        }(SameThread)
      }
      settle()
    }

    /** The rest goes by the next version of the plan. */
    private def elsewhere(location: ServiceLocation, reason: Reason, taken: Int): Unit =
      nextPlan(location, reason).onComplete(guarded {
        case Success(next: ShufflePlan) if adopt(next) => again(taken)
        case Success(NoPlan(code, _)) => failed(s"no service is left for it ($code)")
        case Success(_) => failed("other attempts have been run since")
        case Failure(cause) => failed(s"the driver did not say where else: ${cause.getMessage}")
      })(SameThread)

    private def again(taken: Int): Unit = {
      if (isGoingOn) dispatch(body, cut.from + taken, cut.until)
      settle()
    }

    private def giveUp(location: ServiceLocation, reason: Reason): Unit =
      nextPlan(location, reason).onComplete(guarded { _ =>
        failed(s"${location.hostPort} lost what it had of it: ${reason.sentence}")
      })(SameThread)

    private def failed(why: String): Unit = {
      fail(why)
      settle()
    }

    private def nextPlan(location: ServiceLocation, reason: Reason): Future[PlanAnswer] =
      AttemptPush.this.nextPlan(sentBy.generation, cut.version, location, reason)

    /** What throws where nobody waits for it would leave the task waiting for ever, and keep its memory. */
    private def guarded[T](act: Try[T] => Unit): Try[T] => Unit = outcome =>
      try {
        act(outcome)
      } catch {
        // Whatever it is, an error too: the task that waits is told, and it is thrown on.
        case problem: Throwable =>
          val cause = new SparkException(s"map ${attempt.mapIndex} cannot push", problem)
          AttemptPush.this.synchronized {
            if (failure.isEmpty) failure = Some(cause)
            AttemptPush.this.notifyAll()
          }
          settle()
          throw problem
      }
  }

  /** The driver may be gone: then the answer is that. */
  private def nextPlan(
      epoch: Int,
      version: Int,
      location: ServiceLocation,
      reason: Reason): Future[PlanAnswer] = {
    val trouble = ServiceTrouble(epoch, version, location, reason.code)
    Future.fromTry(Try(means.plans.after(trouble, attempt.shuffleId, attempt.mergeId))).flatten
  }

  /** False: it is of a later epoch, and what was taken in this one is lost. */
  private def adopt(next: ShufflePlan): Boolean = synchronized {
    val isLater = next.generation > plan.generation
    val possible = !isLater || shares.isEmpty
    if (possible) {
      if (isLater) shares.clear()
      if (isLater || next.newest > plan.newest) plan = next
    }
    possible
  }

  private def commitAt(location: ServiceLocation, ledger: Ledger): Future[Any] = {
    val isCopied = synchronized(shares.isCovered(plan, without = Some(location)))
    means.patienceWith(isCopied)(location)(() => isGoingOn) { () =>
      val id = generation(synchronized(plan.generation))
      means.client.commitMap(location, id, attempt.mapIndex, attempt.mapId, ledger)
    }
  }

  private def notCommitted(location: ServiceLocation, cause: Throwable): Unit = {
    log.warn(s"${location.hostPort} did not commit $attempt: ${cause.getMessage}")
    val (epoch, version) = synchronized((plan.generation, plan.newest))
    // Before the attempt fails, so that the next one goes elsewhere.
    awaitTask(nextPlan(epoch, version, location, PushReason.of(cause)))
    synchronized {
      shares.spoil(location)
      if (!shares.isCovered(plan)) fail(s"${location.hostPort} lost what it had of it")
    }
  }

  private def abortAt(locations: Iterable[ServiceLocation]): Unit = {
    val id = generation(plan.generation)
    locations.foreach(means.client.abortMap(_, id, attempt.mapIndex, attempt.mapId))
  }

  private def counted(): Unit = synchronized(requests += 1)

  private def isGoingOn: Boolean = synchronized(failure.isEmpty)

  private def fail(why: String): Unit = synchronized {
    if (failure.isEmpty) {
      failure = Some(new TaskKilledException(s"map ${attempt.mapIndex} has to be run again: $why"))
    }
    notifyAll()
  }

  private def throwIfFailed(): Unit = synchronized(failure).foreach(throw _)

  private def awaitPushes(): Unit = {
    var isOpen = true
    while (isOpen) {
      throwIfOver()
      isOpen = synchronized {
        if (open > 0 && failure.isEmpty) wait(TaskWait.LookMs)
        open > 0
      }
    }
    throwIfFailed()
  }

  private def awaitTask[T](future: Future[T]): Try[T] = TaskWait(future)(alive())
}

private[remote] object AttemptPush {

  /** One for all: to look a logger up walks the stack. */
  private val log = LoggerFactory.getLogger(classOf[AttemptPush])

  private val Spoiled = Reason.PushSkippedService

  /** No service is to blame, and the driver, which had it dropped, is told nothing. */
  private val GivenUp = "Spark has given this attempt up"

  private def countOf(verdict: Verdict): Int = verdict match {
    case Taken => Int.MaxValue
    case Refused(count, _) => count
    case Dropped | Lost(_) => 0
  }
}
