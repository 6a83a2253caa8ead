// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.util.concurrent.atomic.AtomicBoolean

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import scala.concurrent.Future
import scala.util.{Success, Try}

import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{SameThread, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Done, Segment}

/** One attempt of a map task. */
private[push] final case class MapAttempt(
    shuffleId: Int,
    shuffleMergeId: Int,
    mapIndex: Int,
    mapId: Long) {
  override def toString: String = s"map $mapIndex (attempt $mapId) of shuffle $shuffleId"
}

/** The differences between the modes when a map attempt is pushed. */
private[push] trait PushPolicy {

  /** Sends a request, once or until the service takes it or refuses it for good. */
  protected def retry[T](service: ServiceLocation, isReplicated: => Boolean)(
      send: () => Future[T]): Future[T]

  /**
   * Decides about a batch when each of its services has answered. None: nothing was sent there, as
   * the service is incomplete. The lock is held; the result is run without it, and settles the
   * batch.
   */
  protected def concluded(
      batch: AttemptPush#Batch,
      answers: Seq[(ServiceLocation, Option[BatchAnswer])]): () => Unit

  /** A callback threw, on a thread for which nobody waits: the batch has no conclusion. */
  protected def broken(batch: AttemptPush#Batch, cause: Throwable): Unit

  /** Throws if no more may be pushed. */
  protected def throwIfFailed(): Unit = ()

  /** All batches are settled, and no more come. */
  protected def whenSettled(): Unit = ()

  /** True if a service that failed a moment ago is asked to drop the attempt. */
  protected def abortsAtSuspects: Boolean
}

/**
 * One push of one map attempt: batches of segments to services, the ledger of each service, and the
 * commits or aborts that end it. [[PushPolicy]] has the rest: [[BestEffortPush]] if the executor
 * keeps the map output, and [[remote.RequiredPush]] if only services do.
 *
 * The lock of this object guards its state. Services answer on network threads.
 */
private[push] abstract class AttemptPush(
    val attempt: MapAttempt,
    first: ShufflePlan,
    client: ServiceClient)
    extends PushPolicy {
  private[push] val ledgers = new ServiceLedgers(attempt)

  /** With the newest version that is known. */
  protected var plan: ShufflePlan = first

  /** Batches that are not settled. The thread that makes buffers counts as one. */
  private var open = 1
  private var requests = 0L

  /** Does not wait. The buffer is released when none of its segments has to be sent any more. */
  final def push(buffer: SegmentBuffer): Unit =
    try {
      throwIfFailed()
      dispatch(buffer, 0, buffer.segments.length)
    } finally {
      buffer.release()
    }

  /** No more buffers come. */
  final def close(): Unit = {
    val isSettled = synchronized {
      open -= 1
      notifyAll()
      open == 0
    }
    if (isSettled) whenSettled()
  }

  /** For the report: requests that were sent. */
  final def requestCount: Long = synchronized(requests)

  protected final def hasOpen: Boolean = synchronized(open > 0)

  /** Asks each complete service to commit, unless it has done so with a batch. */
  protected final def commits(): Seq[(ServiceLocation, Future[Done])] =
    synchronized(ledgers.uncommitted).map { case (service, ledger) =>
      def isReplicated = synchronized(ledgers.isCovered(plan, without = Some(service)))
      service -> retry(service, isReplicated) { () =>
        client.commitMap(service, generation, attempt.mapIndex, attempt.mapId, ledger)
      }
    }

  /** The services give the memory back. One that does not answer does so when the shuffle ends. */
  protected final def abortAt(services: Seq[ServiceLocation]): Unit = {
    val id = generation
    services
      .filter(abortsAtSuspects || !client.isSuspect(_))
      .foreach(client.abortMap(_, id, attempt.mapIndex, attempt.mapId))
  }

  protected final def generation: ShuffleGeneration = generationOf(synchronized(plan))

  private def generationOf(plan: ShufflePlan): ShuffleGeneration =
    ShuffleGeneration(attempt.shuffleId, plan.generation)

  /** Sends `from until until` of the buffer by the newest version, cut where the group changes. */
  private def dispatch(buffer: SegmentBuffer, from: Int, until: Int): Unit = {
    val batches = ArrayBuffer.empty[Batch]
    synchronized {
      def groupAt(i: Int) = plan.groupOf(plan.newest, buffer.segments(i).reduceId)
      var start = from
      while (start < until) {
        val group = groupAt(start)
        var end = start + 1
        while (end < until && groupAt(end) == group) end += 1
        batches += new Batch(buffer, plan, group, start, end)
        start = end
      }
      open += batches.size
      batches.foreach(_ => buffer.retain())
    }
    // If one of them cannot be sent, those after it are not.
    val left = batches.iterator
    try left.foreach(_.send())
    finally left.foreach(_.settle())
  }

  /** Segments `from until until` of a buffer, of one group, on their way to its services. */
  final class Batch(
      buffer: SegmentBuffer,
      val sentBy: ShufflePlan,
      val group: Int,
      from: Int,
      until: Int) {
    val segments: Array[Segment] = buffer.segments.slice(from, until)
    val services: Seq[ServiceLocation] = sentBy.servicesOf(sentBy.newest, group)
    private val answers = mutable.LinkedHashMap.empty[ServiceLocation, Option[BatchAnswer]]
    private val isSettled = new AtomicBoolean

    private[AttemptPush] def send(): Unit =
      guarded[Unit](_ => services.foreach(sendTo))(Success(()))

    /** None of it has to be sent any more. */
    def settle(): Unit = if (isSettled.compareAndSet(false, true)) {
      try buffer.release()
      finally close()
    }

    /** Sends all but the first `taken` segments by the newest version of the plan. */
    def sendRest(taken: Int): Unit = {
      dispatch(buffer, from + taken, until)
      settle()
    }

    /** If a callback throws, the batch is settled: nobody waits forever, and no memory is lost. */
    def guarded[T](act: Try[T] => Unit): Try[T] => Unit = outcome =>
      try {
        act(outcome)
      } catch {
        // Errors too: the policy learns of each, and it is thrown on.
        case problem: Throwable =>
          AttemptPush.this.synchronized(broken(this, problem))
          settle()
          throw problem
      }

    private def sendTo(service: ServiceLocation): Unit = {
      val isIncomplete = AttemptPush.this.synchronized {
        ledgers.open(service)
        ledgers.isIncomplete(service)
      }
      val answer =
        if (isIncomplete) Future.successful(None) else ask(service).map(Some(_))(SameThread)
      answer.onComplete(guarded(answer => answered(service, answer.get)))(SameThread)
    }

    private def ask(service: ServiceLocation): Future[BatchAnswer] = {
      val (first, body) = (buffer.firstSegment + from, buffer.slice(from, until))
      val request = new BatchRequest(unanswered =>
        client
          .pushBatch(
            service,
            generationOf(sentBy),
            attempt.mapIndex,
            attempt.mapId,
            segments,
            body,
            first,
            isWhole = buffer.isWhole && from == 0 && until == buffer.count,
            unanswered)(AttemptPush.this.synchronized(requests += 1)))
      retry(service, isReplicated(service))(() => request.send())
        .transform(outcome => Success(request.answer(outcome)))(SameThread)
    }

    private def isReplicated(service: ServiceLocation): Boolean = AttemptPush.this.synchronized {
      services.exists(other => other != service && !ledgers.isIncomplete(other))
    }

    private def answered(service: ServiceLocation, answer: Option[BatchAnswer]): Unit = {
      val next = AttemptPush.this.synchronized {
        answers.put(service, answer)
        if (answers.size < services.size) None else Some(concluded(this, answers.toSeq))
      }
      next.foreach(_.apply())
    }
  }
}
