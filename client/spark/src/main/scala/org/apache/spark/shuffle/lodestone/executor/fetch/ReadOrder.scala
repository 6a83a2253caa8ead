// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

/**
 * What Spark's fetch iterator takes for a merged block: portions of one partition, or of all that a task
 * reads, under the name of the first of them.
 *
 * @param inTurn
 *   whether each portion has to wait for those before it
 */
private[fetch] final case class MergedPartition(
    reduceId: Int,
    portions: IndexedSeq[Portion],
    inTurn: Boolean = false) {
  def sizeBytes: Long = portions.iterator.map(_.sizeBytes).sum

  def chunks: Iterator[MergedChunk] = portions.iterator.flatMap(_.chunks.iterator)

  val reduceIds: Set[Int] = chunks.map(_.reduceId).toSet
}

/**
 * In which order a task gets what services have merged, which is the order in which it arrived there.
 *
 * An executor of plain Spark that has all map outputs itself reads them map by map, always: results
 * that depend on it (`first`, `collect_list`, a limit without an order) are the same in every run, and
 * people's tests rely on it. So what comes to memory as a whole anyway is put into that order: the
 * task's part of a shuffle if it is small, else each of its partitions that is. What is larger is read
 * as it lies, chunk by chunk, each of them in order: to collect it map by map would cost the service
 * one seek for each segment, which is what it is there to avoid.
 */
private[fetch] object ReadOrder {

  /**
   * So much comes in one piece. Spark asks for about as much at a time (a fifth of
   * `spark.reducer.maxSizeInFlight`, 48 MiB); a task that begins only when all of it is there has lost
   * some tens of milliseconds.
   */
  val MostBytes: Long = 8L << 20

  /**
   * @param chunks
   *   those of each partition, one partition after another
   * @param concatenable
   *   whether several segments can be read as one stream
   * @param mayWait
   *   whether a chunk that is there may wait for one that was asked for before it. Not where Spark limits the
   *   blocks of an address (`spark.reducer.maxBlocksInFlightPerAddress`): it asks for later ones before
   *   earlier ones then, and for no more until those were handed over.
   */
  def apply(
      chunks: Seq[MergedChunk],
      concatenable: Boolean,
      mayWait: Boolean = true): Seq[MergedPartition] = {
    val partitions = inOrder(chunks, concatenable)
    if (mayWait) partitions else partitions.map(_.copy(inTurn = false))
  }

  private def inOrder(chunks: Seq[MergedChunk], concatenable: Boolean): Seq[MergedPartition] =
    if (chunks.isEmpty) {
      Nil
    } else if (bytesOf(chunks) > MostBytes) {
      val reduceIds = chunks.map(_.reduceId).distinct
      val byPartition = chunks.groupBy(_.reduceId)
      reduceIds.map { reduceId => ofPartition(byPartition(reduceId).toIndexedSeq, concatenable) }
    } else if (concatenable) {
      Seq(MergedPartition(chunks.head.reduceId, IndexedSeq(Portion(chunks.toIndexedSeq))))
    } else {
      Seq(oneByOne(chunks))
    }

  private def ofPartition(
      chunks: IndexedSeq[MergedChunk],
      concatenable: Boolean): MergedPartition =
    if (bytesOf(chunks) > MostBytes) {
      MergedPartition(chunks.head.reduceId, chunks.map(chunk => Portion(IndexedSeq(chunk))))
    } else if (concatenable) {
      MergedPartition(chunks.head.reduceId, IndexedSeq(Portion(chunks)))
    } else {
      oneByOne(chunks)
    }

  /** Chunks of one segment each, which cannot be read as one stream. */
  private def oneByOne(chunks: Seq[MergedChunk]): MergedPartition = {
    val inOrder = chunks.sortBy { chunk =>
      val segment = chunk.segments.head
      (segment.mapIndex, chunk.reduceId, segment.sequence)
    }
    val portions = inOrder.map(chunk => Portion(IndexedSeq(chunk))).toIndexedSeq
    MergedPartition(chunks.head.reduceId, portions, inTurn = true)
  }

  private def bytesOf(chunks: Seq[MergedChunk]): Long = chunks.iterator.map(_.sizeBytes).sum
}
