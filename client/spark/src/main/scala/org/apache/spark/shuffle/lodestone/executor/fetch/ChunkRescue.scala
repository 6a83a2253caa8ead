// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.concurrent.Future

/** What is tried for chunks that could not be fetched, before they are given up. */
private[fetch] trait ChunkRescue {

  /** A service is asked although it failed a moment ago. */
  def insists: Boolean

  /**
   * The same segments, once more or from somewhere else: for each chunk, in their order. On a network
   * thread, which it must not hold up.
   *
   * @param chunks
   *   of one service, which failed in the same way
   * @param failedNs
   *   when the first of them failed for the first time
   */
  def apply(
      chunks: Seq[MergedChunk],
      cause: Throwable,
      failedNs: Long): Future[Seq[Option[MergedChunk]]]
}

private[fetch] object ChunkRescue {

  /** There are originals: a chunk that fails is given up at once. */
  object Never extends ChunkRescue {
    override val insists: Boolean = false

    override def apply(
        chunks: Seq[MergedChunk],
        cause: Throwable,
        failedNs: Long): Future[Seq[Option[MergedChunk]]] =
      Future.successful(chunks.map(_ => None))
  }
}
