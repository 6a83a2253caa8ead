// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.loss

import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future, Promise}

import io.netty.buffer.ByteBuf
import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.network.client.ChunkFetchFailureException
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Logged}
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.transport._
import org.apache.spark.shuffle.lodestone.wire.{LaidSegment, MapRange, SegmentLayoutReply}
import org.apache.spark.shuffle.lodestone.wire.{RefusedException, SegmentRun, WantedChunk}

/**
 * Asks services for map outputs that a reduce task misses or found damaged: for layouts, and for
 * the bytes of a segment. All calls are events of the loop.
 */
private[loss] final class ShownOutputs(
    conf: LodestoneConf,
    client: ServiceClient,
    loop: EventLoop) extends Logged {
  import ShownOutputs._

  private implicit val events: ExecutionContext = loop.context

  /** The questions under way. Many tasks report the same at the same time. */
  private val asked = mutable.HashMap.empty[Question, Future[Shown]]

  /** Limits the bytes that are read at a time. */
  private val room = new Turnstile(MostBytes)

  def apply(service: ServiceLocation, id: ShuffleGeneration, about: About): Future[Shown] = {
    val question = Question(service, id, about)
    asked.getOrElseUpdate(
      question, {
        val answer = ask(question)
        answer.onComplete(_ => asked.remove(question))
        answer
      })
  }

  private def ask(question: Question): Future[Shown] = {
    val Question(service, id, about) = question
    val answer = Promise[Shown]()
    var untilNow: Shown = NotShown
    val reply: Future[Shown] = about match {
      case OfShuffle =>
        client.known(service, id).map(_ => Known)
      case OfBlock(block) =>
        layoutOf(service, id, block.mapIndex, block.reduceId)
          .map(reply => Segments(segmentsOf(reply, block)))
      case BytesOf(damaged) =>
        layoutOf(service, id, damaged.mapIndex, damaged.reduceId)
          .flatMap { reply =>
            // Bytes that are late are not damaged.
            untilNow = Known
            read(question, damaged, reply)(isWanted = !answer.isCompleted)
          }
      case OfChunk(chunk) =>
        untilNow = Known
        val sized = SizedChunk(chunk.wanted, chunk.sizeBytes)
        fetch(question, sized, new Arrival(_ => None))(isWanted = !answer.isCompleted)
    }
    reply
      .recover {
        case failure if saysNothing(failure) => Known
        case failure =>
          log.warn(s"${service.hostPort} does not show $id: ${failure.getMessage}")
          NotShown
      }
      .foreach(answer.trySuccess(_))
    // The service may answer other requests, and this one much later.
    loop.later(MostTimeouts * conf.requestTimeoutMs) {
      answer.trySuccess(untilNow)
      ()
    }
    answer.future
  }

  private def layoutOf(
      service: ServiceLocation,
      id: ShuffleGeneration,
      mapIndex: Int,
      reduceId: Int): Future[SegmentLayoutReply] =
    client.layout(service, id, MapRange(mapIndex, mapIndex + 1), Array(reduceId), segments = 1)

  private def segmentsOf(reply: SegmentLayoutReply, block: MissingBlock): Seq[LaidSegment] =
    withSlots(reply).collect {
      case (_, segment) if segment.mapIndex == block.mapIndex && segment.mapId == block.mapId =>
        segment
    }

  /** Returns all segments with their slots. */
  private def withSlots(reply: SegmentLayoutReply): Seq[(Int, LaidSegment)] =
    for {
      partition <- reply.partitions.toSeq
      run <- partition.runs.toSeq
      (segment, i) <- run.segments.toSeq.zipWithIndex
    } yield (run.first + i, segment)

  /**
   * Reads the segment. The driver does not trust a service's layout alone, because the task may
   * have the same damaged one. If a disk fails, all its readers ask at the same time, and a segment
   * may be as large as a record.
   */
  private def read(question: Question, damaged: DamagedSegment, reply: SegmentLayoutReply)(
      isWanted: => Boolean): Future[Shown] =
    withSlots(reply).find({ case (_, laid) => damaged.names(laid) }) match {
      case None => Future.successful(NotShown)
      case Some((slot, laid)) =>
        val chunk = WantedChunk(damaged.reduceId, Array(SegmentRun(slot, 1)))
        val arrival = new Arrival(ChunkDamage(damaged.reduceId, Array(laid), _))
        fetch(question, SizedChunk(chunk, laid.length.toLong), arrival)(isWanted)
    }

  private def fetch(question: Question, chunk: SizedChunk, arrival: Arrival)(
      isWanted: => Boolean): Future[Shown] = {
    val Question(service, id, _) = question
    val bytes = math.min(chunk.sizeBytes, MostBytes.toLong).toInt
    room.enter(bytes) { () =>
      if (isWanted) {
        client.fetchChunks(service, id, Array(chunk), arrival)
      } else {
        arrival.isThere.trySuccess(Known)
        ()
      }
    }
    val came = arrival.isThere.future
    came.onComplete(_ => room.left(bytes))
    came.recover { case failure => whatIsSaidBy(failure, service, id) }
  }

  private def whatIsSaidBy(
      failure: Throwable,
      service: ServiceLocation,
      id: ShuffleGeneration): Shown = failure match {
    case _ if FailureClass.of(failure) == FailureClass.MissingData => NotShown
    case _: DamagedChunkException | _: ChunkFetchFailureException | _: RefusedException
        if !saysNothing(failure) =>
      log.warn(s"${service.hostPort} does not give bytes of $id: ${failure.getMessage}")
      Damaged
    // The service has the bytes. The driver cannot find out more.
    case _ => Known
  }
}

private[loss] object ShownOutputs {
  sealed trait About

  /** Asks whether the service knows the shuffle. */
  case object OfShuffle extends About

  /** Asks for the segments of a block that a task misses. */
  final case class OfBlock(block: MissingBlock) extends About

  /** Asks for the bytes of a segment that a task found damaged. */
  final case class BytesOf(segment: DamagedSegment) extends About

  /** Asks for a chunk that the service refused to a task. */
  final case class OfChunk(chunk: UnreadChunk) extends About

  sealed trait Shown

  /** The service does not answer, or does not have it. */
  case object NotShown extends Shown

  /** The service has it, or has no time for an answer. */
  case object Known extends Shown

  /** The service has other bytes than were written. */
  case object Damaged extends Shown
  final case class Segments(all: Seq[LaidSegment]) extends Shown

  private final case class Question(
      service: ServiceLocation,
      id: ShuffleGeneration,
      about: About)

  /** Some segments of usual size. The driver needs its memory for other work. */
  private val MostBytes = 16 << 20

  /**
   * True if it does not tell whether the service has it: it is busy, it has more of it than one
   * answer holds, or the driver has a bug.
   */
  private def saysNothing(failure: Throwable): Boolean = FailureClass.of(failure) match {
    case FailureClass.ServiceBusy | FailureClass.Declined => true
    case FailureClass.Fault => !failure.isInstanceOf[RefusedException]
    case _ => false
  }

  /** The longest silence of a service, in time-outs. Executors wait for more than three. */
  private val MostTimeouts = 2L

  /** Receives a chunk on a network thread. `flawIn` finds what is wrong with its bytes. */
  private final class Arrival(flawIn: ByteBuf => Option[DamagedChunkException])
      extends ChunkReceiver {
    val isThere: Promise[Shown] = Promise[Shown]()

    override def received(index: Int, data: ManagedBuffer): Option[DamagedChunkException] = {
      val bytes = ChunkBytes(data)
      try {
        val flaw = flawIn(bytes)
        if (flaw.isEmpty) isThere.trySuccess(Known)
        flaw
      } finally {
        bytes.release()
        ()
      }
    }

    override def failed(index: Int, cause: Throwable): Unit = {
      isThere.tryFailure(cause)
      ()
    }
  }
}
