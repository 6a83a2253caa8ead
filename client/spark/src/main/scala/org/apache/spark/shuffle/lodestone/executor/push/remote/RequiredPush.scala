// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import scala.concurrent.Future
import scala.util.{Failure, Success, Try}

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.{SparkException, TaskKilledException}
import org.apache.spark.shuffle.lodestone.executor.link.PlanCache
import org.apache.spark.shuffle.lodestone.executor.push.{AttemptPush, BatchAnswer, MapAttempt}
import org.apache.spark.shuffle.lodestone.executor.push.PushReason
import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.transport.{FailureClass, RetryPolicy, SameThread}
import org.apache.spark.shuffle.lodestone.transport.{ServiceClient, TaskWait}
import org.apache.spark.shuffle.lodestone.wire.{RefusedException, Status}

/** The parts of an executor that the pushes of an attempt use. */
private[remote] final case class PushMeans(
    client: ServiceClient,
    plans: PlanCache,
    retryPolicy: RetryPolicy,
    retryPolicyWhenReplicated: RetryPolicy)

/**
 * The push of an attempt whose output only services keep. Its task waits for it. Segments that one
 * service refuses go to another one, by the next version of the plan. Segments of a service that is
 * lost later cannot be made again: the attempt ends, and Spark runs another one, which does not
 * count as failed.
 */
private[remote] final class RequiredPush(
    attempt: MapAttempt,
    first: ShufflePlan,
    means: PushMeans,
    alive: () => Unit)
    extends AttemptPush(attempt, first, means.client) with Logged {
  import RequiredPush._

  private val aborted = new TaskKilledException("the map attempt was aborted")
  private var failure: Option[Throwable] = None
  private var isAborted = false

  /** How the first version of the plan spreads partitions over services. */
  val stripes: Stripes = first.stripes(first.newest)

  /** By the newest version that is known; a hint, as that may change at any time. */
  def groupOf(reduceId: Int): Int = synchronized(plan.groupOf(plan.newest, reduceId))

  /** For a task that waits for something else. */
  def throwIfOver(): Unit = {
    throwIfFailed()
    alive()
  }

  /** Why the attempt cannot commit, unless [[abort]] is the reason. */
  def failed: Option[Throwable] = synchronized(failure).filter(_ ne aborted)

  /** For the driver's report. */
  def pushed(output: RemoteOutput, segments: Int, bytes: Long): MapPushed = {
    val id = ShuffleGeneration(attempt.shuffleId, output.generation)
    val counts = PushCounts(segments.toLong, bytes, requestCount, Map.empty)
    MapPushed(id, attempt.mapIndex, attempt.mapId, counts)
  }

  /** Waits until each segment is where it belongs, and shows all of them to readers. */
  def commit(): RemoteOutput = {
    close()
    awaitPushes()
    for ((service, outcome) <- commits()) awaitTask(outcome) match {
      case Success(_) =>
      case Failure(refused: RefusedException) if refused.status == Status.Aborted => fail(GivenUp)
      case Failure(cause) => notCommitted(service, cause)
    }
    throwIfFailed()
    synchronized {
      abortAt(ledgers.incomplete)
      val parts = ledgers.versions.map { version =>
        RemotePart(version, ledgers.servicesWithoutData(plan, version))
      }
      RemoteOutput(plan.generation, parts)
    }
  }

  /** Ends the attempt for a frame that no request may carry, before its bytes are copied. */
  def refuseTooLarge(reduceId: Int, bytes: Long): Nothing = {
    val by = synchronized(plan)
    val service = by.servicesOf(by.newest, by.groupOf(by.newest, reduceId)).head
    log.warn(s"A frame of $bytes bytes of $attempt is larger than a request may be")
    awaitTask(nextPlan(troubleAt(service, by, Reason.PushTooLarge)))
    fail(keptNext(Reason.PushTooLarge))
    throw synchronized(failure.get)
  }

  /** Makes services drop the attempt. Callers may call it in any state, and repeatedly. */
  def abort(): Unit = synchronized {
    if (!isAborted) {
      isAborted = true
      if (failure.isEmpty) failure = Some(aborted)
      abortAt(ledgers.services)
    }
  }

  override protected def retry[T](service: ServiceLocation, isReplicated: => Boolean)(
      send: () => Future[T]): Future[T] = {
    val policy = if (isReplicated) means.retryPolicyWhenReplicated else means.retryPolicy
    policy(service)(() => isGoingOn)(send)
  }

  override protected def concluded(
      batch: AttemptPush#Batch,
      answers: Seq[(ServiceLocation, Option[BatchAnswer])]): () => Unit =
    // A refusal of an aborted attempt says nothing about the service.
    if (!isGoingOn) () => batch.settle()
    else if (answers.exists(_._2.exists(_.refusal.contains(Status.Aborted)))) {
      () => end(batch, GivenUp)
    } else if (batch.sentBy.generation != plan.generation) () => sendRest(batch, 0)
    else decide(batch, answers)

  /** No service has dropped the attempt, and the generation is still the same. */
  private def decide(
      batch: AttemptPush#Batch,
      answers: Seq[(ServiceLocation, Option[BatchAnswer])]): () => Unit = {
    val troubles = answers.flatMap { case (service, answer) =>
      val trouble = answer.filterNot(_ => ledgers.isIncomplete(service)).fold(Skipped)(troubleOf)
      val taken = batch.segments.take(trouble.fold(Int.MaxValue)(_.taken))
      ledgers.record(service, batch.sentBy.newest, batch.group, taken)
      trouble.map(service -> _)
    }
    troubles.headOption match {
      case None => () => batch.settle()
      case Some((service, Trouble(reason @ Reason.PushTooLarge, _, _))) =>
        () => keepOutput(batch, service, reason)
      case Some((service, trouble)) if answers.size == 1 && !trouble.isLost =>
        () => elsewhere(batch, service, trouble.reason, trouble.taken)
      case Some((service, trouble)) =>
        val isNowhere = !troubles.exists { case (one, _) => ledgers.segmentsAt(one) > 0 }
        troubles.foreach { case (one, _) => ledgers.markIncomplete(one) }
        if (!ledgers.isCovered(plan)) () => giveUp(batch, service, trouble.reason)
        else if (troubles.size < answers.size) () => goOnWithout(batch, troubles)
        else if (isNowhere) () => elsewhere(batch, service, trouble.reason, 0)
        else () => giveUp(batch, service, trouble.reason)
    }
  }

  /** No other service is tried: the next attempts of all maps write to the executor's own disk. */
  private def keepOutput(
      batch: AttemptPush#Batch,
      service: ServiceLocation,
      reason: Reason): Unit =
    nextPlan(troubleAt(service, batch.sentBy, reason)).onComplete(batch.guarded { _ =>
      end(batch, keptNext(reason))
    })(SameThread)

  /** One replica is complete. The next batches have two again, if there are services. */
  private def goOnWithout(
      batch: AttemptPush#Batch,
      troubles: Seq[(ServiceLocation, Trouble)]): Unit = {
    for ((service, cause) <- troubles) {
      nextPlan(troubleAt(service, batch.sentBy, cause.reason)).onComplete {
        case Success(next: ShufflePlan) => follow(next)
        case Success(_) => // it goes on with the services that it has
        case Failure(failure) =>
          log.warn(s"The driver does not know that ${service.hostPort} has trouble", failure)
      }(SameThread)
    }
    batch.settle()
  }

  /** The rest goes by the next version of the plan. */
  private def elsewhere(
      batch: AttemptPush#Batch,
      service: ServiceLocation,
      reason: Reason,
      taken: Int): Unit =
    nextPlan(troubleAt(service, batch.sentBy, reason)).onComplete(batch.guarded {
      case Success(next: ShufflePlan) if follow(next) => sendRest(batch, taken)
      case Success(NoPlan(reason, _)) =>
        end(batch, s"no other service takes its segments ($reason)")
      case Success(_) => end(batch, "other attempts have been run since")
      case Failure(cause) =>
        end(batch, s"the driver did not name another service: ${cause.getMessage}")
    })(SameThread)

  private def keptNext(reason: Reason): String =
    s"the next attempt keeps its output: ${reason.sentence}"

  private def sendRest(batch: AttemptPush#Batch, taken: Int): Unit =
    if (isGoingOn) batch.sendRest(taken) else batch.settle()

  private def giveUp(batch: AttemptPush#Batch, service: ServiceLocation, reason: Reason): Unit =
    nextPlan(troubleAt(service, batch.sentBy, reason)).onComplete(batch.guarded { _ =>
      end(batch, s"service ${service.hostPort} lost segments of it: ${reason.sentence}")
    })(SameThread)

  private def end(batch: AttemptPush#Batch, why: String): Unit = {
    fail(why)
    batch.settle()
  }

  private def troubleAt(service: ServiceLocation, by: ShufflePlan, reason: Reason) =
    ServiceTrouble(by.generation, by.newest, service, reason)

  private def nextPlan(trouble: ServiceTrouble): Future[PlanAnswer] =
    means.plans.after(trouble, attempt.shuffleId, attempt.shuffleMergeId)

  /** Returns false if it is of a later generation: the segments that this one has are lost. */
  private def follow(next: ShufflePlan): Boolean = synchronized {
    val isLater = next.generation > plan.generation
    val possible = !isLater || ledgers.isEmpty
    if (possible) {
      if (isLater) ledgers.clear()
      if (isLater || next.newest > plan.newest) plan = next
    }
    possible
  }

  private def notCommitted(service: ServiceLocation, cause: Throwable): Unit = {
    log.warn(s"${service.hostPort} did not commit $attempt: ${cause.getMessage}")
    // Before the attempt fails, so that the next one goes elsewhere.
    awaitTask(nextPlan(troubleAt(service, synchronized(plan), PushReason.of(cause))))
    synchronized {
      ledgers.markIncomplete(service)
      if (!ledgers.isCovered(plan)) fail(s"service ${service.hostPort} lost segments of it")
    }
  }

  private def isGoingOn: Boolean = synchronized(failure.isEmpty)

  private def fail(why: String): Unit =
    fail(new TaskKilledException(s"Spark runs map ${attempt.mapIndex} again: $why"))

  private def fail(cause: Throwable): Unit = synchronized {
    if (failure.isEmpty) failure = Some(cause)
    notifyAll()
  }

  override protected def broken(batch: AttemptPush#Batch, cause: Throwable): Unit =
    fail(new SparkException(s"map ${attempt.mapIndex} cannot push", cause))

  override protected def throwIfFailed(): Unit = synchronized(failure).foreach(throw _)

  override protected def abortsAtSuspects: Boolean = true

  private def awaitPushes(): Unit = {
    while (hasOpen) {
      throwIfOver()
      synchronized {
        if (hasOpen && failure.isEmpty) wait(TaskWait.LookMs)
      }
    }
    // A batch that fails is not open any more.
    throwIfOver()
  }

  private def awaitTask[T](future: Future[T]): Try[T] = TaskWait(future)(alive())
}

private[remote] object RequiredPush {

  /** No service is to blame, and the driver, which aborted it, gets no report. */
  private val GivenUp = "Spark has given this attempt up"

  /**
   * The service did not take all of a batch. If it is lost, nobody knows what it has, or it has
   * nothing any more. If not, it keeps the first `taken` segments.
   */
  private final case class Trouble(reason: Reason, isLost: Boolean, taken: Int)

  private val Skipped: Option[Trouble] = Some(Trouble(Reason.PushSkippedService, true, 0))

  private def troubleOf(answer: BatchAnswer): Option[Trouble] = answer.refusal match {
    case Some(status) =>
      val isLost = !FailureClass.of(status).action.keepsSegments
      Some(Trouble(PushReason.of(status), isLost, if (isLost) 0 else answer.taken))
    case None =>
      answer.outcome.failed.toOption.map(cause => Trouble(PushReason.of(cause), isLost = true, 0))
  }
}
