// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

/**
 * What Spark's fetch iterator takes for a merged block: portions of one partition, or of all
 * partitions that a task reads, under the name of the first one. `inTurn`: each portion waits for
 * those before it.
 */
private[fetch] final case class FetchPartition(
    reduceId: Int,
    portions: IndexedSeq[Portion],
    inTurn: Boolean = false) {
  def sizeBytes: Long = portions.iterator.map(_.sizeBytes).sum

  def chunks: Iterator[FetchChunk] = portions.iterator.flatMap(_.chunks.iterator)

  val reduceIds: Set[Int] = chunks.map(_.reduceId).toSet
}

/**
 * The order in which a task reads chunks. A service has segments in the order of their arrival.
 *
 * An executor of plain Spark that has all map outputs reads them map by map: results that depend on
 * it (`first`, `collect_list`, a limit without an order) are the same in every run, and people's
 * tests rely on it. So data that fits into memory as a whole is put into that order: all that the
 * task reads, if it is small, or each small partition. Larger partitions are read chunk by chunk,
 * each chunk in order: to read them map by map would cost the service one seek for each segment.
 */
private[fetch] object ReadOrder {

  /**
   * Spark requests about as much at a time (a fifth of `spark.reducer.maxSizeInFlight`, 48 MiB). A
   * task that begins when all of it has arrived loses some tens of milliseconds.
   */
  val MostBytes: Long = 8L << 20

  /**
   * @param chunks
   *   those of each partition, one partition after another
   * @param concatenable
   *   whether several segments can be read as one stream
   * @param mayWait
   *   whether a chunk that has arrived may wait for one that was requested before it. It may not if
   *   Spark limits the blocks of an address (`spark.reducer.maxBlocksInFlightPerAddress`): Spark
   *   then requests later chunks before earlier ones, and no more until those were handed over.
   */
  def apply(
      chunks: Seq[FetchChunk],
      concatenable: Boolean,
      mayWait: Boolean = true): Seq[FetchPartition] = {
    val partitions = inOrder(chunks, concatenable) {
      val byPartition = chunks.groupBy(_.reduceId)
      chunks.map(_.reduceId).distinct.flatMap { reduceId =>
        val ofPartition = byPartition(reduceId)
        inOrder(ofPartition, concatenable)(Seq(FetchPartition(reduceId, alone(ofPartition))))
      }
    }
    if (mayWait) partitions else partitions.map(_.copy(inTurn = false))
  }

  /** All of these in one portion, if they are small enough to be put in order. */
  private def inOrder(chunks: Seq[FetchChunk], concatenable: Boolean)(
      larger: => Seq[FetchPartition]): Seq[FetchPartition] =
    if (chunks.isEmpty) Nil
    else if (chunks.iterator.map(_.sizeBytes).sum > MostBytes) larger
    else if (!concatenable) Seq(oneByOne(chunks))
    else Seq(FetchPartition(chunks.head.reduceId, IndexedSeq(Portion(chunks.toIndexedSeq))))

  /** Chunks of one segment each, which cannot be read as one stream. */
  private def oneByOne(chunks: Seq[FetchChunk]): FetchPartition = {
    val inOrder = chunks.sortBy { chunk =>
      val segment = chunk.segments.head
      (segment.mapIndex, chunk.reduceId, segment.sequence)
    }
    FetchPartition(chunks.head.reduceId, alone(inOrder), inTurn = true)
  }

  private def alone(chunks: Seq[FetchChunk]): IndexedSeq[Portion] =
    chunks.map(chunk => Portion(IndexedSeq(chunk))).toIndexedSeq
}
