// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.OutputStream
import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.{ShuffleDependency, TaskContext, TaskKilledException}
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter
import org.apache.spark.shuffle.lodestone.engine.{FramePush, FrameReservation}
import org.apache.spark.shuffle.lodestone.executor.push.SegmentBuffers
import org.apache.spark.shuffle.lodestone.executor.push.records.{
  MapStatuses,
  OutputCheck,
  RowChecksums
}
import org.apache.spark.shuffle.lodestone.plan.DriverMessage

/** The parts of an executor that the pushes of engines share. */
private[remote] final class FrameMeans(
    val buffers: SegmentBuffers,
    waitingBytes: Long,
    reservedBytes: Long) {
  val waiting = new WaitingMemory(waitingBytes)
  val reservations = new FrameReservations(reservedBytes)
}

/**
 * Pushes the frames of a map attempt as its engine gives them. Small frames wait. They are sent in
 * a round, in the order of their ranks, when there are enough of them, or no room for the next one.
 * A large frame is a request of its own.
 *
 * One lock guards all of it. A call keeps the lock while it waits for a service or for memory of
 * requests, and other calls of the attempt wait for the lock. The end of the attempt ends the wait.
 *
 * @param makePush
 *   gets what throws when the attempt has ended
 */
private[remote] final class RemoteFramePush(
    dependency: ShuffleDependency[_, _, _],
    means: FrameMeans,
    context: TaskContext,
    metrics: ShuffleWriteMetricsReporter,
    report: DriverMessage => Unit)(
    makePush: (() => Unit) => RequiredPush)
    extends FramePush {
  private val numPartitions = dependency.partitioner.numPartitions
  private val required = makePush(() => throwIfEnded())
  private val segments =
    new SegmentWriter(required, means.buffers, numPartitions, context.taskMemoryManager())
  private val waiting =
    new WaitingFrames(means.waiting, RecordCollector.enoughBytes(numPartitions))
  private val lock = new Object

  /** Bytes that were taken, by partition. */
  private val lengths = new Array[Long](numPartitions)
  private val reserved = ConcurrentHashMap.newKeySet[FrameReservation]()

  /** A call has failed: what it was about is missing, whatever the engine makes of it. */
  @volatile private var isLost = false
  @volatile private var isCommitted = false
  @volatile private var isAborted = false

  context.addTaskCompletionListener[Unit](_ => if (!isCommitted) abort())
  // Here is the task's own thread, which alone may ask Spark for memory.
  segments.makeAll()

  override def push(partition: Int, bytes: Array[Byte], offset: Int, length: Int): Unit =
    pushing(partition, ByteBuffer.wrap(bytes, offset, length))

  override def push(partition: Int, frame: ByteBuffer): Unit =
    pushing(partition, frame.duplicate())

  override def refuse(partition: Int, bytes: Long): Unit =
    working(required.refuseTooLarge(partition, bytes))

  private def pushing(partition: Int, frame: => ByteBuffer): Unit = lock.synchronized {
    // The engine takes this frame for a part of the output, which is committed without it.
    if (isCommitted) required.abort()
    working(accept(partition, frame))
  }

  override def reserve(maxLength: Int): FrameReservation = losing {
    if (maxLength < 0) throw new IllegalArgumentException(s"a frame of $maxLength bytes")
    // It may have more by far than the frame, whose push says if that is too large.
    val bytes = math.min(maxLength, FramePush.MAX_FRAME_BYTES)
    val taken = means.reservations.take(bytes.toLong)(() => throwIfOver())
    val reservation: FrameReservation = new FrameReservation {
      override def close(): Unit = {
        reserved.remove(this)
        taken.close()
      }
    }
    reserved.add(reservation)
    // The attempt may have ended since: nobody else would close it.
    if (isCommitted || isAborted) reservation.close()
    reservation
  }

  override def partitionLengths(): Array[Long] = lock.synchronized(lengths.clone())

  override def commit(): MapStatus = working {
    segments.beginLastRound()
    sendWaiting()
    segments.end()
    for (partition <- 0 until numPartitions) {
      OutputCheck.bytes(partition, segments.sentOf(partition), lengths(partition))
    }
    val beganNs = System.nanoTime()
    val output = required.commit()
    metrics.incWriteTime(System.nanoTime() - beganNs + segments.waitedNanos)
    metrics.incBytesWritten(lengths.sum)
    report(required.pushed(output, segments.segments, lengths.sum))
    val attempt = required.attempt
    val status = MapStatuses(
      output.location(attempt.shuffleId),
      lengths,
      attempt.mapId,
      RowChecksums(dependency))
    isCommitted = true
    close()
    status
  }

  override def abort(): Unit = {
    isAborted = true
    // A call that waits sees it, and gives the lock back.
    lock.synchronized {
      close()
      required.abort()
    }
  }

  override def causeOf(thrown: Throwable): Throwable =
    required.failed
      .orElse(context.getKillReason().map(new TaskKilledException(_)))
      .getOrElse(thrown)

  private def working[T](act: => T): T = lock.synchronized(losing(act))

  private def losing[T](act: => T): T = {
    throwIfOver()
    if (isLost) {
      throw new IllegalStateException(s"an earlier call for ${required.attempt} has failed")
    }
    var isDone = false
    try {
      val done = act
      isDone = true
      done
    } finally if (!isDone) isLost = true
  }

  private def accept(partition: Int, frame: ByteBuffer): Unit = {
    if (partition < 0 || partition >= numPartitions) {
      throw new IllegalArgumentException(s"partition $partition of $numPartitions")
    }
    val length = frame.remaining()
    if (length > FramePush.MAX_FRAME_BYTES) required.refuseTooLarge(partition, length.toLong)
    if (frame.hasRemaining) add(partition, frame)
  }

  private def add(partition: Int, frame: ByteBuffer): Unit = {
    val (rank, length) = (segments.rankOf(partition), frame.remaining())
    segments.expect(rank)
    lengths(partition) += length
    val isWaiting = length < segments.segmentBytes && (waiting.add(rank, frame) || {
      sendWaiting()
      waiting.add(rank, frame)
    })
    if (!isWaiting) {
      segments.addFrames(rank, length) { out =>
        copy(frame, out)
        1
      }
      segments.endRound()
    }
  }

  private def sendWaiting(): Unit = {
    val frames = waiting.inOrder
    var next = 0
    while (next < frames.length) {
      val rank = frames(next).rank
      segments.addFrames(rank, frames(next).length) { out =>
        val first = next
        do {
          waiting.write(frames(next), out)
          next += 1
        } while (next < frames.length && frames(next).rank == rank &&
            segments.takes(frames(next).length))
        next - first
      }
    }
    segments.endRound()
    waiting.clear()
  }

  private def copy(frame: ByteBuffer, out: OutputStream): Unit = {
    val some = new Array[Byte](math.min(frame.remaining(), RemoteFramePush.CopyBytes))
    while (frame.hasRemaining) {
      val now = math.min(frame.remaining(), some.length)
      frame.get(some, 0, now)
      out.write(some, 0, now)
    }
  }

  /** Gives all memory back. */
  private def close(): Unit = {
    reserved.forEach(_.close())
    waiting.close()
    segments.close()
  }

  /** A call that comes after the end is a mistake of the engine. A push that failed says why. */
  private def throwIfOver(): Unit = {
    if (isCommitted && !isAborted) {
      throw new IllegalStateException(
        s"${required.attempt} has committed: it takes no call any more")
    }
    throwIfEnded()
    required.throwIfOver()
  }

  /** Ends the waits of the attempt. */
  private def throwIfEnded(): Unit = {
    if (isAborted) {
      throw new IllegalStateException(s"${required.attempt} was aborted: it takes no call any more")
    }
    context.killTaskIfInterrupted()
  }
}

private object RemoteFramePush {
  private val CopyBytes = 64 << 10
}
