// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import scala.util.control.NonFatal

import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.ShuffleWriter
import org.apache.spark.shuffle.lodestone.engine.FramePush

/**
 * The writer of a map task whose engine pushes frames.
 *
 * @param engine
 *   pushes all of these rows, and has no call under way when it returns. If it throws, it may have
 *   some: the abort ends them
 */
private[lodestone] final class PushingWriter[K, V](push: FramePush)(
    engine: Iterator[Product2[K, V]] => Unit)
    extends ShuffleWriter[K, V] {
  private var status: Option[MapStatus] = None

  override def write(rows: Iterator[Product2[K, V]]): Unit =
    try {
      engine(rows)
      status = Some(push.commit())
    } catch {
      // Failures of the rows, of the engine and of the push, which native code wraps in exceptions
      // of its own. Each ends the task, and the attempt is aborted.
      case NonFatal(thrown) => throw push.causeOf(thrown)
    } finally {
      if (status.isEmpty) push.abort()
    }

  override def stop(success: Boolean): Option[MapStatus] = {
    if (!success || status.isEmpty) push.abort()
    if (success) status else None
  }

  override def getPartitionLengths(): Array[Long] = push.partitionLengths()
}
