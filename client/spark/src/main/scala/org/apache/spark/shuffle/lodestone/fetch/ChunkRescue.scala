// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import scala.concurrent.Future

/** What is tried for a chunk that could not be fetched, before it is given up. */
private[fetch] trait ChunkRescue {

  /** A service is asked although it failed a moment ago. */
  def insists: Boolean

  /**
   * The same segments, once more or from somewhere else. On a network thread, which it must not hold up.
   *
   * @param failedNs
   *   when it failed for the first time
   */
  def apply(
      reduceId: Int,
      chunk: MergedChunk,
      cause: Throwable,
      failedNs: Long): Future[Option[MergedChunk]]
}

private[fetch] object ChunkRescue {

  /** There are originals: a chunk that fails is given up at once. */
  object Never extends ChunkRescue {
    override val insists: Boolean = false

    override def apply(
        reduceId: Int,
        chunk: MergedChunk,
        cause: Throwable,
        failedNs: Long): Future[Option[MergedChunk]] = Future.successful(None)
  }
}
