// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.engine;

import java.nio.ByteBuffer;
import org.apache.spark.scheduler.MapStatus;

/**
 * The push of the output of one map attempt, while its task runs. No executor keeps any of it.
 *
 * <p>A frame is what the decoder of the engine reads as a unit. It needs no other frame. Readers
 * get whole frames, each exactly once, in any order.
 *
 * <p><b>Threads.</b> Any thread may call any method, several at the same time. The task's own
 * thread gets the object, and need not call it. Calls wait for memory and for services. Every wait
 * ends when the task is killed, when {@link #abort} is called, or when the attempt fails, at most
 * half a second later.
 *
 * <p><b>Back-pressure.</b> Frames that are smaller than a quarter of {@code
 * spark.lodestone.push.batchSize} wait in memory for others, so that one request carries frames of
 * many partitions. This memory has a limit for the whole executor. Then they are sent, like large
 * frames at once, and a call waits while the requests of the executor have all of {@code
 * spark.lodestone.push.memory}. A call that waits lets other calls of the same attempt wait, and
 * holds nothing that a call of another attempt needs to go on.
 *
 * <p><b>Failures.</b> After a call has thrown, the attempt is lost, and each further call throws.
 * The engine ends its work, and its task throws what {@link #causeOf} returns: Spark does not count
 * some failures against the task. If {@link #commit} has not returned when the task ends, the
 * attempt is aborted, and readers see nothing of it.
 */
public interface FramePush {

  /** The limit of one frame, in bytes. A service takes 7/32 of its memory, if that is less. */
  int MAX_FRAME_BYTES = 64 << 20;

  /**
   * Takes a copy of a frame: the caller may change the array as soon as the method returns. A frame
   * without bytes adds nothing.
   *
   * <p>A frame above {@link #MAX_FRAME_BYTES} is not copied, and one that is too large for a
   * service is refused by it. Either ends the attempt. Spark runs the map again, and that attempt
   * gets no push: the engine writes a local output.
   *
   * @param partition from 0 on, below the number of partitions of the shuffle
   * @throws IllegalStateException after {@link #commit} or {@link #abort}
   */
  void push(int partition, byte[] bytes, int offset, int length);

  /**
   * Takes a copy of the bytes between the position and the limit of a buffer, which may be direct,
   * and leaves both as they are. All else is as for an array.
   */
  void push(int partition, ByteBuffer frame);

  /**
   * Says that the engine has a frame which it cannot push because of its size, as if it had pushed
   * one above {@link #MAX_FRAME_BYTES}. It throws in any case.
   */
  default void refuse(int partition, long bytes) {
    throw new IllegalArgumentException("a frame of " + bytes + " bytes");
  }

  /**
   * Announces a frame, before the engine takes memory to encode it. The call waits while other
   * announced frames of the executor have all of {@code spark.lodestone.push.memory}. The wait ends
   * after some seconds in any case: the frames that it waits for may wait for memory of Spark that
   * this task has. An announcement does not push anything, and a push needs none.
   *
   * @param maxLength the most bytes that the frame may have. More than {@link #MAX_FRAME_BYTES}
   *     count as that
   * @return to be closed when the frame was pushed, or is not pushed. The end of the attempt closes
   *     all that are open
   */
  FrameReservation reserve(int maxLength);

  /** The bytes that were pushed so far, by partition: those of Spark's map status in the end. */
  long[] partitionLengths();

  /**
   * Pushes all that waits. All pushes must have returned before: one that comes later throws, and
   * makes services drop the attempt, which would lack its frame. It returns when services have
   * acknowledged each frame and have committed the attempt. It fails if one frame is not there, or
   * is there twice. The written bytes and the time of the wait are added to the metrics of the
   * task; written rows are not, since the engine alone knows them.
   *
   * @return the status that the task gives to Spark
   */
  MapStatus commit();

  /**
   * Drops the attempt, in any state, also after a commit, and again. Services forget its frames.
   * Calls that wait throw.
   */
  void abort();

  /**
   * Returns what the task has to throw when the engine has thrown something: the failure of this
   * push, or the kill of the task, if there is one, else the argument. Native code wraps what a
   * call has thrown, and Spark would count that as a failure of the task.
   */
  Throwable causeOf(Throwable thrown);
}
